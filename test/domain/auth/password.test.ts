// Passwords: which may be chosen, and how they are hashed.
import { describe, expect, it } from "vitest";
import { Passwords, PASSWORD_COST, type PasswordCost } from "../../../src/domain/auth/password.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { passwordProblem } from "../../../src/domain/auth/password-policy.ts";
import { readText } from "../../../src/platform/packaged-files.ts";
import { account, logIn } from "../../../harness/instances/people.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";

const CHEAP = { memoryCost: 64, timeCost: 2, parallelism: 1 };
const CALLER = { network: "10.0.0.0/24", known: false };
const passwordsAt = (cost?: PasswordCost) => new Passwords(new Ledger({ bound: 8, share: 8 }), cost);
const ada = { email: "lovelace@example.com", words: ["Analytical Engines", "engines-ltd"] };

describe("a password may be chosen", () => {
  for (const password of [
    "correct horse battery staple",
    "пароль-который-длинный",
    "lovelace and eight more",
    "😀😃😄😁😆😅😂🤣😊😇🙂🙃",
    "keyrack plus enough besides",
    "  spaces are kept as typed  ",
    "x".repeat(100) + "yz".repeat(78),
  ]) {
    it(JSON.stringify(password.slice(0, 30)), () => expect(passwordProblem(password, 12, ada)).toBeNull());
  }
});

describe("a password may not be chosen", () => {
  for (const [password, reason] of [
    ["short", /at least 12/],
    ["cafe\u0301cafe\u0301xyz", /at least 12/], // eleven characters once normalised
    ["y".repeat(257), /at most 256/],
    ["1qaz2wsx3edc", /most common/],
    ["Q1W2E3R4T5Y6", /most common/],
    ["zzzzzzzzzzzzzz", /repeats/],
    ["xyxyxyxyxyxyx", /repeats/],
    ["abcdabcdabcdab", /repeats/],
    ["bcdefghijklmn", /sequence/],
    ["zyxwvutsrqponm", /sequence/],
    ["3456789012345", /sequence/],
    ["asdfghjkl;'asdf", /sequence/],
    ["LoveLace!1234", /word that belongs/],
    ["keyrackKEYRACK1", /word that belongs/],
    ["engines-ltd 2026", /word that belongs/],
    ["analytical engines7", /word that belongs/],
  ] as const) {
    it(`${JSON.stringify(password.slice(0, 30))}: ${String(reason)}`, () =>
      expect(passwordProblem(password, 12, ada)).toMatch(reason));
  }

  it("accepts passwords with words of three letters", () => {
    expect(passwordProblem("ada likes me", 12, { email: "ada@example.com" })).toBeNull();
  });

  it("the list holds at least 10,000 passwords of the default length, sorted and unique", () => {
    const [head = "", ...lines] = readText("data/common-passwords.txt").trimEnd().split("\n");
    expect(head).toMatch(/^# .*Source: npm /);
    expect(lines.filter((line) => line.length >= 12).length).toBeGreaterThanOrEqual(10_000);
    expect(lines).toEqual([...new Set(lines)].toSorted());
    expect(lines.every((line) => line === line.toLowerCase() && line.length >= 8)).toBe(true);
  });

  it("the list also applies to a shorter minimum length", () => {
    expect(passwordProblem("qwerty123", 8, ada)).toMatch(/most common/);
    expect(passwordProblem("password1", 8, ada)).toMatch(/most common/);
    expect(passwordProblem("sunny-tx", 8, ada)).toBeNull();
  });
});

describe("hashing", () => {
  it("is Argon2id at 64 MiB, two passes, one lane", async () => {
    const passwords = passwordsAt();
    const phc = await passwords.hash(CALLER, "a password");
    expect(phc).toMatch(/^\$argon2id\$v=19\$/);
    for (const part of ["m=65536", "t=2", "p=1"]) expect(phc).toContain(part);
    expect(PASSWORD_COST.memoryCost).toBeGreaterThanOrEqual(19_456);
    expect(await passwords.verify(CALLER, phc, "a password")).toBe(true);
    expect(await passwords.verify(CALLER, phc, "another")).toBe(false);
    expect(passwords.isStale(phc)).toBe(false);
    expect(passwordsAt({ ...PASSWORD_COST, timeCost: 3 }).isStale(phc)).toBe(true);
  });

  it("verifies a dummy hash for an address without an account, and fails", async () => {
    const passwords = passwordsAt(CHEAP);
    expect(await passwords.verify(CALLER, null, "anything")).toBe(false);
  });
});

for (const backend of runBackends) {
  it(`a login rehashes a password that was hashed with other parameters, on ${backend}`, async () => {
    await using instance = await testInstance(backend);
    const email = await account(instance);
    const phc = async (): Promise<string> =>
      String((await instance.sql("select password_phc from users where email_key = $1", [email]))[0]?.password_phc);
    const before = await phc();
    await logIn(instance, email);
    expect(await phc()).toBe(before);
    const old = await passwordsAt({ ...CHEAP, timeCost: 3 }).hash(CALLER, "correct horse battery staple");
    await instance.sql("update users set password_phc = $1 where email_key = $2", [old, email]);
    const both = await Promise.all([logIn(instance, email), logIn(instance, email)]);
    expect(both).toHaveLength(2);
    const after = await phc();
    expect(after).not.toBe(old);
    expect(passwordsAt(CHEAP).isStale(after)).toBe(false);
    await logIn(instance, email);
  });
}
