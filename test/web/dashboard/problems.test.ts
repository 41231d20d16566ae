// What the dashboard says about a refused request.
import { expect, it } from "vitest";
import { fail } from "../../../src/kernel/errors.ts";
import { Problem, problemMessage } from "../../../src/web/dashboard/api/problems.ts";

const messageOf = (name: Parameters<typeof fail>[0]): string => {
  const { status, message } = fail(name);
  return problemMessage(new Problem(status, { message }, new Headers({ "retry-after": "900" })));
};

it("says when to try again after too many requests", () => {
  expect(messageOf("share_spent")).toBe("This workspace has reached a usage limit. Try again in 15 minutes.");
});

it("says to reset the password of a locked account, not to wait", () => {
  expect(messageOf("login_disabled")).toBe("Too many failed logins. Reset the password to log in again.");
});
