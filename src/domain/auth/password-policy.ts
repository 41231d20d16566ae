// Which passwords may be chosen: long enough, and nothing that an attacker guesses first. No composition rules.
// Applies to new passwords only: existing ones must still log in.
import { failField } from "../../kernel/errors.ts";
import { readText } from "../../platform/packaged-files.ts";
import { membershipsOfUser } from "../../store/queries/memberships.ts";
import type { UserRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { normalizePassword } from "./password.ts";

const CHARS_MAX = 256;
const BYTES_MAX = 1_024;
const OTHER_CHARS_MIN = 8;
const WORD_MIN = 4;
const UNIT_MAX = 4;

let common: ReadonlySet<string> | undefined;

/** Loaded on first use: most processes never see a new password. */
function commonPasswords(): ReadonlySet<string> {
  const lines = () => readText("data/common-passwords.txt").split("\n").slice(1);
  return (common ??= new Set(lines().filter((line) => line !== "")));
}

/** What an attacker would guess from the account itself: its address and its workspaces. */
type PasswordContext = { email: string; words?: readonly string[] };

/** As `checkNewPassword`, for an account that exists. */
export async function checkPasswordOf(services: Services, password: string, user: UserRow): Promise<void> {
  const memberships = await membershipsOfUser.all(services.store.read, { user_id: user.id });
  const words = memberships.flatMap(({ name, slug }) => [name, slug]);
  checkNewPassword(services, password, { email: user.email, words });
}

/** Rejects a weak password, with the reason in the details of the field. */
export function checkNewPassword(services: Services, password: string, context: PasswordContext): void {
  const reason = passwordProblem(password, services.settings.password_min, context);
  if (reason) throw failField("invalid_body", "password", reason);
}

/** The reason why this password may not be chosen, or null. */
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

/** A unit of up to four characters, repeated; the last repetition may be incomplete. */
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

/** A run along the alphabet, the digits or a keyboard row, in either direction, from any start, wrapping around. */
function isSequence(text: string): boolean {
  return ROWS.some((row) => {
    const cycle = row.repeat(Math.ceil(text.length / row.length) + 1);
    return cycle.includes(text) || [...cycle].toReversed().join("").includes(text);
  });
}

/** Whether fewer than eight characters remain once a guessable word is taken out. */
function isMostly(text: string, word: string): boolean {
  const known = word.normalize("NFC").toLowerCase();
  if ([...known].length < WORD_MIN || !text.includes(known)) return false;
  return [...text.replaceAll(known, "")].length < OTHER_CHARS_MIN;
}
