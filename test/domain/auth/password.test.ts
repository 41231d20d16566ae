// Passwords: which may be chosen, how they are hashed, and the concurrency limit in front of hashing.
import { describe, expect, it } from "vitest";
import { ConcurrencyLimit, Passwords, PASSWORD_COST } from "../../../src/domain/auth/password.ts";
import { passwordProblem } from "../../../src/domain/auth/password-policy.ts";
import { readText } from "../../../src/platform/packaged-files.ts";
import { Failure } from "../../../src/kernel/errors.ts";
import { account, logIn } from "../../../harness/instances/people.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";

const CHEAP = { memoryCost: 64, timeCost: 2, parallelism: 1 };
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
    const passwords = new Passwords();
    const phc = await passwords.hash("a password");
    expect(phc).toMatch(/^\$argon2id\$v=19\$/);
    for (const part of ["m=65536", "t=2", "p=1"]) expect(phc).toContain(part);
    expect(PASSWORD_COST.memoryCost).toBeGreaterThanOrEqual(19_456);
    expect(await passwords.verify(phc, "a password")).toBe(true);
    expect(await passwords.verify(phc, "another")).toBe(false);
    expect(passwords.isStale(phc)).toBe(false);
    expect(new Passwords({ ...PASSWORD_COST, timeCost: 3 }).isStale(phc)).toBe(true);
  });

  it("verifies a dummy hash for an address without an account, and fails", async () => {
    const passwords = new Passwords(CHEAP);
    expect(await passwords.verify(null, "anything")).toBe(false);
  });
});

describe("the concurrency limit", () => {
  const never = new Promise<void>(() => {});

  it("runs one task, queues 32, and rejects the next at once", async () => {
    const limit = new ConcurrencyLimit(1);
    let open = (): void => {};
    const first = limit.run(() => new Promise<void>((resolve) => (open = resolve)));
    const done: number[] = [];
    const waiting = Array.from({ length: 32 }, (_, n) => limit.run(async () => void done.push(n)));
    await expect(limit.run(async () => {})).rejects.toMatchObject({ failure: "overloaded", status: 503 });
    open();
    await Promise.all([first, ...waiting]);
    expect(done).toEqual(Array.from({ length: 32 }, (_, n) => n));
  });

  it("rejects a task that has waited two seconds", async () => {
    const limit = new ConcurrencyLimit(1);
    void limit.run(() => never);
    const refused = await limit.run(async () => {}).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Failure);
    expect(refused).toMatchObject({ failure: "overloaded" });
  });

  it("frees its slot when a task fails", async () => {
    const limit = new ConcurrencyLimit(1);
    await expect(limit.run(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await limit.run(async () => 7)).toBe(7);
  });
});

for (const back of backends) {
  it(`a log-in rehashes a password that was hashed with other parameters, on ${back}`, async () => {
    await using r = await testInstance(back);
    const email = await account(r);
    const phc = async (): Promise<string> =>
      String((await r.sql("select password_phc from users where email_key = $1", [email]))[0]?.password_phc);
    const before = await phc();
    await logIn(r, email);
    expect(await phc()).toBe(before);
    const old = await new Passwords({ ...CHEAP, timeCost: 3 }).hash("correct horse battery staple");
    await r.sql("update users set password_phc = $1 where email_key = $2", [old, email]);
    const both = await Promise.all([logIn(r, email), logIn(r, email)]);
    expect(both).toHaveLength(2);
    const after = await phc();
    expect(after).not.toBe(old);
    expect(new Passwords(CHEAP).isStale(after)).toBe(false);
    await logIn(r, email);
  });
}
