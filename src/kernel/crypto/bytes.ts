// Hex, base64 and UTF-8 codecs that work the same on Node, in a worker and in a browser. The decoders are strict and
// throw SyntaxError: base64 must be padded, without spaces and with zero spare bits, so that one value has exactly one
// spelling. Hex is accepted in either case.

/** The digits of each byte. */
export const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
const STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE = `${STANDARD.slice(0, 62)}-_`;
const STANDARD_VALUES = new Map(Array.from(STANDARD, (char, value) => [char, value]));
const encoder = new TextEncoder();

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += HEX[byte];
  return text;
}

export function fromHex(text: string): Uint8Array {
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(text)) throw new SyntaxError("Not hex.");
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = (digit(text, 2 * i) << 4) | digit(text, 2 * i + 1);
  return bytes;
}

/** The value of a hex digit: letters of either case have 1 to 6 in their low bits, and bit 6 set. */
function digit(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return (code & 15) + (code >> 6) * 9;
}

/** RFC 4648 §4, padded. */
export function toBase64(bytes: Uint8Array): string {
  const text = encode64(bytes, STANDARD);
  return text + "=".repeat((4 - (text.length % 4)) % 4);
}

/** RFC 4648 §5, without padding. */
export function toBase64Url(bytes: Uint8Array): string {
  return encode64(bytes, URL_SAFE);
}

export function fromBase64(text: string): Uint8Array {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw new SyntaxError("Not base64.");
  const body = text.replace(/=+$/, "");
  const bytes = new Uint8Array(Math.floor((body.length * 3) / 4));
  let bits = 0;
  let pending = 0;
  let at = 0;
  for (const char of body) {
    bits = ((bits << 6) | (STANDARD_VALUES.get(char) ?? 0)) & 0x3fff;
    pending += 6;
    if (pending >= 8) {
      pending -= 8;
      bytes[at++] = bits >>> pending;
    }
  }
  if ((bits & ((1 << pending) - 1)) !== 0) throw new SyntaxError("Not base64.");
  return bytes;
}

/** A lone surrogate becomes U+FFFD, so text must be well formed before it is hashed. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

export function concatBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function encode64(bytes: Uint8Array, alphabet: string): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const group = ((bytes[i] ?? 0) << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    const chars = Math.min(bytes.length - i, 3) + 1;
    for (let n = 0; n < chars; n++) text += alphabet.charAt((group >>> (18 - 6 * n)) & 63);
  }
  return text;
}
