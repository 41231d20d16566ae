// CRC-32/ISO-HDLC, the checksum of zlib and PNG: polynomial 0xEDB88320 (reflected), start and final xor 0xFFFFFFFF.
// Takes ASCII text, one byte per character. It detects a mistyped key and proves nothing else: anyone can compute it.

/** The CRC of each single byte, without the final xor. */
export const CRC_TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

export function crc32(text: string): number {
  let crc = -1;
  for (let i = 0; i < text.length; i++) crc = (crc >>> 8) ^ (CRC_TABLE[(crc ^ text.charCodeAt(i)) & 0xff] ?? 0);
  return ~crc >>> 0;
}

/** Eight lower-case hex digits, zero padded. */
export function crc32Hex(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}
