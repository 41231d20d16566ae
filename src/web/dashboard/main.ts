// The people's pages. A link carries its token behind the #, which no server sees; it is read once and taken out of the
// address before anything else happens, so it stays in no history, bookmark or screenshot.
import { mount } from "./components/page.ts";
import { forgotPage } from "./pages/forgot.ts";
import { homePage } from "./pages/home.ts";
import { invitePage } from "./pages/invite.ts";
import { linklessPage } from "./pages/invalid-link.ts";
import { resetPage } from "./pages/reset.ts";
import { verifyPage } from "./pages/verify.ts";

type Page = (token: string) => void;

const behindLinks = new Map<string, Page>([
  ["verify", verifyPage],
  ["reset", resetPage],
  ["invite", invitePage],
]);

function takeLink(): { name: string; token: string } {
  const [name = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const token = new URLSearchParams(search).get("token") ?? "";
  if (search !== "") history.replaceState(null, "", `#/${behindLinks.has(name) ? name : ""}`);
  return { name, token };
}

function open({ name, token }: ReturnType<typeof takeLink>): void {
  const page = behindLinks.get(name);
  if (page) (token === "" ? linklessPage : page)(token);
  else if (name === "forgot") forgotPage();
  else homePage();
}

const link = takeLink();
mount(document.body);
open(link);
addEventListener("hashchange", () => open(takeLink()));
