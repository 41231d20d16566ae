// Routes of the pages that links in mail open. A link's token is in the URL fragment, which is not sent to servers. It
// is read once and removed from the address bar first, so that it stays in no history, bookmark or screenshot.
import { mount } from "./components/page.ts";
import { forgotPage } from "./pages/forgot.ts";
import { homePage } from "./pages/home.ts";
import { missingTokenPage } from "./pages/invalid-link.ts";
import { invitePage } from "./pages/invite.ts";
import { resetPage } from "./pages/reset.ts";
import { verifyPage } from "./pages/verify.ts";

type TokenPage = (token: string) => void;

const tokenPages = new Map<string, TokenPage>([
  ["verify", verifyPage],
  ["reset", resetPage],
  ["invite", invitePage],
]);

/** Reads the fragment and removes the token from the address bar. */
function takeLink(): { name: string; token: string } {
  const [name = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const token = new URLSearchParams(search).get("token") ?? "";
  if (search !== "") history.replaceState(null, "", `#/${tokenPages.has(name) ? name : ""}`);
  return { name, token };
}

function route({ name, token }: ReturnType<typeof takeLink>): void {
  const page = tokenPages.get(name);
  if (page) (token === "" ? missingTokenPage : page)(token);
  else if (name === "forgot") forgotPage();
  else homePage();
}

const link = takeLink();
mount(document.body);
route(link);
addEventListener("hashchange", () => route(takeLink()));
