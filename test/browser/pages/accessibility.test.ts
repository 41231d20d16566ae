// Keyboard use, axe rules and narrow windows on every page. KEYRACK_TEST_SCREENSHOTS names a folder for pictures.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "../../../harness/browser/browser.ts";
import { expectAccessibleInLooks, guest, setLook } from "../../../harness/browser/pages.ts";
import { button, field, fillLogin, invite, linkTo, useBrowserSuite } from "../../../harness/browser/suite.ts";
import { account, freshEmail, PASSWORD } from "../../../harness/instances/people.ts";

const SHOTS = process.env.KEYRACK_TEST_SCREENSHOTS;
const OTHER = "quite another set of words";

describe.runIf(hasBrowser)("accessibility of the pages", () => {
  const suite = useBrowserSuite();

  it("can be used by keyboard alone: a new person accepts an invitation", async () => {
    const email = freshEmail("pia");
    const { link } = await invite(suite.instance, email);
    await using g = await guest(suite.browser);
    const { keyboard } = g.page;
    const focused = (): Promise<string> =>
      g.page.evaluate("document.activeElement.labels?.[0]?.innerText ?? document.activeElement.innerText");
    const radio = (): Promise<string> => g.page.evaluate("document.activeElement.parentElement.innerText");
    await g.open(link);
    await g.at("Accept your invitation");
    await expect.poll(focused).toBe("Accept your invitation");
    await keyboard.press("Tab");
    await expect.poll(radio).toBe("I'm new here");
    await keyboard.press("ArrowRight");
    await expect.poll(radio).toBe("I have an account");
    await keyboard.press("ArrowLeft");
    await keyboard.press("Tab");
    await expect.poll(focused).toBe("Email");
    await keyboard.type("pia");
    await keyboard.press("Enter");
    await expect.poll(focused).toBe("Password"); // the first missing field
    await keyboard.type("password1234");
    await keyboard.press("Tab");
    await expect.poll(focused).toBe("Show");
    await keyboard.press("Space");
    await expect.poll(() => field(g.page, "Password").getAttribute("type")).toBe("text");
    await keyboard.press("Tab");
    await expect.poll(focused).toBe("Sign up and accept");
    await keyboard.press("Enter");
    await g.page.getByText("Email must be a valid email address.").waitFor();
    await expect.poll(focused).toBe("Email");
    await keyboard.press("Control+A");
    await keyboard.type(email);
    await keyboard.press("Enter");
    await g.page.getByText("Password is one of the most common passwords.").waitFor();
    await expect.poll(focused).toBe("Password");
    await keyboard.press("Control+A");
    await keyboard.type(PASSWORD);
    await keyboard.press("Enter");
    await g.at("Home");
    await expect.poll(focused).toBe("Home");
    await g.expectClean();
  });

  // Colours and layout are independent: each scheme and each width once, all combinations for screenshots.
  const LOOKS = [
    ["light", { colorScheme: "light", viewport: { width: 760, height: 720 } }],
    ["narrow", { colorScheme: "dark", viewport: { width: 320, height: 568 } }],
    ["phone", { colorScheme: "light", viewport: { width: 360, height: 700 } }],
    ["dark", { colorScheme: "dark", viewport: { width: 760, height: 720 } }],
  ] as const;

  it("has no accessibility violation and no horizontal scrolling on any page, wide and light or narrow and dark", async () => {
    await using g = await guest(suite.browser);
    const lookAt = async (name: string): Promise<void> => {
      await expectAccessibleInLooks(g.page, [LOOKS[0][1], LOOKS[1][1]]);
      for (const [look, options] of SHOTS ? LOOKS : []) {
        await setLook(g.page, options);
        if (look !== "narrow") await shoot(name, look);
      }
    };
    const shoot = async (name: string, look: string): Promise<void> => {
      mkdirSync(SHOTS ?? "", { recursive: true });
      await g.page.mouse.move(0, 0);
      const card = await g.page.getByRole("main").boundingBox();
      if (!card) throw new Error("no card");
      const clip = { x: card.x - 14, y: 0, width: card.width + 28, height: card.y + card.height + 20 };
      const path = join(SHOTS ?? "", `pages-${name}-${look}.png`);
      await g.page.screenshot({ path, clip, fullPage: true, animations: "disabled" });
    };
    await g.open(`${suite.instance.url}/#/login`);
    await g.at("Log in");
    await lookAt("login");
    await g.open(`${suite.instance.url}/#/signup`);
    await g.at("Sign up");
    await lookAt("sign-up");
    await g.open(`${suite.instance.url}/#/verify?token=made-up`);
    await g.at("Verify your email address");
    await lookAt("verify");
    await button(g.page, "Verify email address").click();
    await g.at("This link has expired or was already used");
    await lookAt("verify-stale");
    await g.open(`${suite.instance.url}/#/forgot`);
    await g.at("Reset your password");
    await lookAt("forgot");
    const email = await account(suite.instance, freshEmail("quin"));
    await suite.instance.call(null, "POST /v1/auth/password_resets", { email });
    await g.open(await linkTo(suite.instance, email));
    await field(g.page, "New password").waitFor();
    await lookAt("reset");
    await field(g.page, "New password").fill("password1234");
    await button(g.page, "Reset password").click();
    await g.page.getByText("New password is one of the most common passwords.").waitFor();
    await lookAt("reset-refused");
    await field(g.page, "New password").fill(OTHER);
    await button(g.page, "Reset password").click();
    await g.at("Your password has been reset");
    await lookAt("reset-done");
    await g.open((await invite(suite.instance, email)).link);
    await g.at("Accept your invitation");
    await lookAt("invite");
    await g.page.getByLabel("I have an account").check();
    await fillLogin(g.page, email, PASSWORD);
    await button(g.page, "Log in and accept").click();
    await g.page.getByRole("alert").getByText("Wrong email address").waitFor();
    await lookAt("invite-refused");
    await field(g.page, "Password").fill(OTHER);
    await button(g.page, "Log in and accept").click();
    await g.at("Home");
    await g.expectClean();
  });
});
