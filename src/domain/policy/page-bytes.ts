// The bytes of policy pages: buffers of their own, compressed and decompressed.
import { promisify } from "node:util";
import { constants, createGzip, createZstdCompress, zstdDecompress, type Gzip, type ZstdCompress } from "node:zlib";

export type Encoding = "zstd" | "gzip";

/** Smaller pages are one buffer: each buffer is three objects. */
const JOINED_MAX = 64 * 1024;
/** Output chunk of the compressors: each chunk costs a turn of the event loop. */
const OUTPUT_CHUNK = 64 * 1024;

const compressors: Record<Encoding, (bytes: number) => Gzip | ZstdCompress> = {
  zstd: (bytes) =>
    createZstdCompress({
      chunkSize: OUTPUT_CHUNK,
      pledgedSrcSize: bytes,
      params: { [constants.ZSTD_c_compressionLevel]: 1 },
    }),
  gzip: () => createGzip({ chunkSize: OUTPUT_CHUNK, level: 1 }),
};

/** Chunk by chunk: concatenated first, a page would be in memory twice. */
export async function compress(chunks: readonly Uint8Array[], bytes: number, encoding: Encoding): Promise<Uint8Array> {
  const compressor = compressors[encoding](bytes);
  for (const chunk of chunks) compressor.write(chunk);
  compressor.end();
  const compressed: Uint8Array[] = [];
  for await (const chunk of compressor) compressed.push(chunk as Uint8Array);
  return detach(Buffer.concat(compressed));
}

export const decompress = (compressed: Uint8Array, bytes: number): Promise<Uint8Array> =>
  promisify(zstdDecompress)(compressed, { chunkSize: bytes });

/** The chunks of a page of this length, in buffers of their own. */
export function ownBytes(chunks: readonly Uint8Array[], bytes: number): readonly Uint8Array[] {
  return bytes < JOINED_MAX ? [detach(Buffer.concat(chunks, bytes))] : chunks.map(detach);
}

/** Copies a view of a shared pool buffer, which would otherwise keep the whole pool alive. */
function detach(bytes: Uint8Array): Uint8Array {
  return bytes.buffer.byteLength === bytes.length ? bytes : new Uint8Array(bytes);
}
