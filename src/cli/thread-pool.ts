// Enlarges libuv's thread pool. Password hashing shares it with fsync and DNS: with the default of four threads, four
// concurrent logins would block both. libuv reads the size when the pool starts, so this must run first.
const POOL_MIN = 8;

export function enlargeThreadPool(): void {
  const { UV_THREADPOOL_SIZE: size } = process.env;
  if (!(Number(size) >= POOL_MIN)) process.env.UV_THREADPOOL_SIZE = String(POOL_MIN);
}
