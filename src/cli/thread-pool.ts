// Password hashing runs on libuv's pool, together with fsync and DNS: with its four threads, four log-ins would stop
// everything. The size is read when the pool starts, so this must be the first thing the program does.
const POOL_MIN = 8;

export function widenThreadPool(): void {
  const { UV_THREADPOOL_SIZE: size } = process.env;
  if (!(Number(size) >= POOL_MIN)) process.env.UV_THREADPOOL_SIZE = String(POOL_MIN);
}
