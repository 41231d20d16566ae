// The demonstration: its content, and every page of the dashboard with it, in a light, a dark or a phone-sized window.
import { describe, expect, it } from "vitest";
import { hasBrowser, sharedBrowser } from "../../../harness/browser/browser.ts";
import { useDemo } from "../../../harness/browser/demo.ts";
import { expectAccessible, guest, setLook, type Look } from "../../../harness/browser/pages.ts";
import { DEMO_DAYS } from "../../../src/server/demo/demo.ts";

const WINDOW = { width: 1280, height: 720 };
const LOOKS: Look[] = [
  { colorScheme: "light", viewport: WINDOW },
  { colorScheme: "dark", viewport: WINDOW },
  { colorScheme: "light", viewport: { width: 360, height: 740 } },
];
const PAGES = [
  "Home",
  "Keys",
  "Tenants",
  "Projects",
  "Plans",
  "Usage",
  "Fleet",
  "Leaks",
  "Audit",
  "Portal",
  "Developers",
  "Members",
  "Settings",
  "Instance",
];

/** Paths and headings. */
const OPEN_PAGES = {
  login: "Log in",
  signup: "Sign up",
  forgot: "Reset your password",
  "verify?token=made-up": "Verify your email address",
};

describe("the demonstration", () => {
  const demo = useDemo();

  it("has keys in every state, people, verifiers and a log that verifies", async () => {
    for (const state of ["active", "expiring", "expired", "idle", "disabled", "quarantined", "revoked"])
      expect((await demo.call(`GET /v1/keys?state=${state}`)).data, state).not.toEqual([]);
    const { keys, projects, nodes } = await demo.call("GET /v1/overview");
    expect({ quarantined: keys.quarantined, projects, nodes }).toEqual({
      quarantined: 1,
      projects: 3,
      nodes: { live: 3, current: 2 },
    });
    const roles = (await demo.call("GET /v1/members")).data.map(({ role }: { role: string }) => role);
    expect(roles.toSorted()).toEqual(["admin", "member", "owner"]);
    expect(await demo.call("GET /v1/audit_logs/chain")).toMatchObject({ verified: true });
    const [oldest] = (await demo.call("GET /v1/audit_logs?limit=1")).data;
    const age = Date.now() - Date.parse(oldest.occurred_at);
    expect(Math.round(age / 86_400_000)).toBe(DEMO_DAYS);
  });

  it("uses no key before it was created or after it stopped working", async () => {
    type Key = Record<"created_at" | "expires_at" | "disabled_at" | "revoked_at" | "last_used_at", string | null>;
    const keys: Key[] = (await demo.call("GET /v1/keys?include_revoked=true&limit=200")).data;
    const isUsed = (key: Key, by: string | null, sign: 1 | -1): boolean =>
      by !== null && key.last_used_at !== null && sign * (Date.parse(key.last_used_at) - Date.parse(by)) > 0;
    expect(keys.filter((key) => isUsed(key, key.created_at, -1))).toEqual([]);
    for (const end of ["expires_at", "disabled_at", "revoked_at"] as const) {
      expect(
        keys.filter((key) => isUsed(key, key[end], 1)),
        end,
      ).toEqual([]);
      expect(
        keys.some((key) => isUsed(key, key[end], -1)),
        end,
      ).toBe(true);
    }
  });

  it.runIf(hasBrowser)("fills every page, each accessible and within its window", async () => {
    await using g = await demo.logIn();
    // One look a page: test/browser/dashboard has each page in more of its states.
    for (const [i, title] of PAGES.entries()) {
      await setLook(g.page, LOOKS[i % LOOKS.length]!);
      await g.page.goto(`${demo.url}/#/w/demo/live/${title.toLowerCase()}?limit=25`);
      await g.at(title);
      await g.page.locator(".skeleton, main [aria-busy=true]").first().waitFor({ state: "detached" });
      await expectAccessible(g.page);
    }
    await g.expectClean();
  });

  it.runIf(hasBrowser)("has accessible pages for people who are not logged in", async () => {
    await using g = await guest(await sharedBrowser(), { viewport: WINDOW });
    for (const [path, title] of Object.entries(OPEN_PAGES)) {
      await g.open(`${demo.url}/#/${path}`);
      await g.at(title);
      await expectAccessible(g.page);
    }
    await g.expectClean();
  });
});
