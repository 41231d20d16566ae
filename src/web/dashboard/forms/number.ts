// Whole numbers typed into text fields.
import { fieldProblem } from "../api/problems.ts";
import type { Values } from "./form.tsx";

const WHOLE = /^[1-9]\d{0,5}$/;

/** Null for an empty field. Throws a problem that names the field. */
export function numberOf(values: Values, name: string): number | null {
  const text = values[name] ?? "";
  if (text === "") return null;
  if (WHOLE.test(text)) return Number(text);
  throw fieldProblem(name, "must be a whole number, or empty");
}

/** Numbers with commas or spaces between them. Throws a problem that names the field. */
export function numbersOf(values: Values, name: string): number[] {
  const texts = (values[name] ?? "").split(/[\s,]+/).filter(Boolean);
  const wrong = texts.find((text) => !WHOLE.test(text));
  if (wrong !== undefined) throw fieldProblem(name, `: ${wrong} is not a whole number`);
  return texts.map(Number);
}
