// Which passwords may be chosen (decisions 26, 27): long enough, and nothing that a guesser tries first. No composition
// rules. Never asked when a password is only presented: old ones must still log in.
import { failField } from "../../kernel/errors.ts";
import { readText } from "../../platform/packaged-files.ts";
import type { Services } from "../core/context.ts";
import { normalizePassword } from "./password.ts";

const CHARS_MAX = 256;
const BYTES_MAX = 1_024;
const REST_MIN = 8;
const WORD_MIN = 4;
const UNIT_MAX = 4;

let listed: ReadonlySet<string> | undefined;

/** Read when first needed: most processes never see a new password. */
function commonPasswords(): ReadonlySet<string> {
  const lines = () => readText("data/common-passwords.txt").split("\n").slice(1);
  return (listed ??= new Set(lines().filter((line) => line !== "")));
}

/** Words a guesser would take from the account itself: the local part of its address, its workspaces. */
export type PasswordContext = { email: string; words?: readonly string[] };

/** Refuses with the reason, as details of the field. */
export function checkNewPassword(services: Services, password: string, context: PasswordContext): void {
  const reason = passwordProblem(password, services.settings.password_min, context);
  if (reason) throw failField("invalid_body", "password", reason);
}

/** Why this password may not be chosen, or null. */
export function passwordProblem(password: string, min: number, { email, words = [] }: PasswordContext): string | null {
  const normal = normalizePassword(password);
  const length = [...normal].length;
  if (length < min) return `must have at least ${min} characters`;
  if (length > CHARS_MAX) return `must have at most ${CHARS_MAX} characters`;
  if (Buffer.byteLength(normal) > BYTES_MAX) return `must have at most ${BYTES_MAX} bytes`;
  const plain = normal.toLowerCase();
  if (commonPasswords().has(plain)) return "is one of the most common passwords";
  if (isRepeated(plain)) return "repeats the same few characters";
  if (isSequence(plain)) return "is a simple sequence";
  const local = email.slice(0, email.lastIndexOf("@"));
  const word = ["keyrack", local, ...words].find((known) => isMostly(plain, known));
  return word === undefined ? null : "is little more than a word that belongs to this account";
}

/** One unit of up to four characters over and over, the last one perhaps cut short. */
function isRepeated(text: string): boolean {
  const chars = [...text];
  for (let unit = 1; unit <= UNIT_MAX; unit++) {
    if (chars.length > unit && chars.every((char, i) => char === chars[i % unit])) return true;
  }
  return false;
}

const ROWS = [
  "abcdefghijklmnopqrstuvwxyz",
  "1234567890",
  "0123456789",
  "qwertyuiopasdfghjklzxcvbnm",
  "qwertyuiop[]",
  "asdfghjkl;'",
  "zxcvbnm,./",
  "qwertzuiopasdfghjklyxcvbnm",
  "azertyuiopqsdfghjklmwxcvbn",
  "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik,9ol.0p;/",
];

/** A walk along the alphabet, the digits or a keyboard, either way, starting anywhere and going round. */
function isSequence(text: string): boolean {
  return ROWS.some((row) => {
    const round = row.repeat(Math.ceil(text.length / row.length) + 1);
    return round.includes(text) || [...round].toReversed().join("").includes(text);
  });
}

/** Whether too little is left of the text without a word that anybody could know. */
function isMostly(text: string, word: string): boolean {
  const known = word.normalize("NFC").toLowerCase();
  if ([...known].length < WORD_MIN || !text.includes(known)) return false;
  return [...text.replaceAll(known, "")].length < REST_MIN;
}
