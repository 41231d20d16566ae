// <keyrack-portal>: a customer's own API keys inside the vendor's page. It keeps nothing: no cookie, no storage; its
// authority is the embed token that the page hands it, and the server decides every time what that allows.
import { Api, ApiError } from "./api.ts";
import { askCreate, askRevoke, askRotate, holdOpen, isHeld, type Desk } from "./dialogs.ts";
import { adoptEarly, h } from "../shared/dom.ts";
import { keyRow, nameOf, type Action } from "./keys.ts";
import { styles } from "./styles.ts";
import { Words, type Strings } from "./messages.ts";
import { UsagePanel } from "./usage.ts";
import { alert, blank, explain, filter, header, testBanner, waiting } from "./view.ts";
import type { Key, Keys, Session, Token } from "./types.ts";

export type { Strings, Token };

export type GetToken = () => Promise<Token> | Token;

const LIST_MAX = 100;
const SCRIPT = "/embed/portal.js";

export class KeyrackPortal extends HTMLElement {
  static readonly observedAttributes = ["base-url", "token", "locale"];

  #getToken: GetToken | null = null;
  readonly #root = this.attachShadow({ mode: "open" });
  readonly #api = new Api({
    baseUrl: () => this.baseUrl,
    fetchToken: async () => (this.#getToken ? await this.#getToken() : null),
    expiring: () => this.#tell("keyrack-token-expiring", {}),
  });
  #words = new Words("en", {});
  #strings: Partial<Strings> = {};
  #session: Session | null = null;
  #keys: Key[] | null = null;
  #more = false;
  #revoked = false;
  #error: ApiError | null = null;
  #usage: UsagePanel | null = null;
  #round = 0;
  readonly #frame = h("section", { class: "frame", part: "frame", "aria-labelledby": "title" });
  readonly #status = h("div", { class: "hide", role: "status" });
  readonly #dialog = h("dialog", { part: "dialog", "aria-labelledby": "dialog-title" });

  constructor() {
    super();
    holdOpen(this.#dialog);
  }

  /** Called for a first token, again when one is due for renewal, and after a refusal. */
  get getToken(): GetToken | null {
    return this.#getToken;
  }
  set getToken(ask: GetToken | null) {
    this.#getToken = ask;
    if (ask && this.#error?.trouble === "setup") void this.reload();
  }

  get baseUrl(): string {
    const own = new URL(import.meta.url);
    const fallback = own.pathname.endsWith(SCRIPT) ? own.origin + own.pathname.slice(0, -SCRIPT.length) : "";
    return (this.getAttribute("base-url") ?? fallback).replace(/\/+$/, "");
  }
  set baseUrl(value: string) {
    this.setAttribute("base-url", value);
  }

  get locale(): string {
    return this.getAttribute("locale") ?? (document.documentElement.lang || navigator.language);
  }
  set locale(value: string) {
    this.setAttribute("locale", value);
  }

  get token(): string | null {
    return this.getAttribute("token");
  }
  /** A token set here leaves no trace in the page's markup. */
  set token(value: Token | null) {
    this.#api.use(value);
    if (this.isConnected && this.#round > 0) void this.reload();
  }

  /** Words of the page's own, by name; the rest stay as they are. */
  set strings(own: Partial<Strings>) {
    this.#strings = own;
    this.#speak();
  }

  connectedCallback(): void {
    adoptEarly(this, ["getToken", "token", "strings", "locale", "baseUrl"]);
    this.#root.adoptedStyleSheets = [styles()];
    this.#root.replaceChildren(this.#frame, this.#status, this.#dialog);
    window.addEventListener("online", this.#online);
    window.addEventListener("offline", this.#offline);
    this.#speak();
    // A page that sets getToken right behind the element must not be asked too early.
    queueMicrotask(() => void this.reload());
  }

  disconnectedCallback(): void {
    window.removeEventListener("online", this.#online);
    window.removeEventListener("offline", this.#offline);
    this.#usage?.close();
    this.#usage = null;
    this.#dialog.close();
    this.#dialog.replaceChildren(); // a new key may stand in it
    this.#api.stop();
  }

  attributeChangedCallback(name: string, _old: string | null, value: string | null): void {
    if (name === "locale") return this.#speak();
    if (name === "token") this.#api.use(value);
    if (this.isConnected && this.#round > 0) void this.reload();
  }

  /** Reads everything again. */
  async reload(): Promise<void> {
    const round = ++this.#round;
    this.#error = null;
    this.#render();
    try {
      const session = await this.#api.get<Session>("session");
      const list = session.scopes.includes("keys:read") ? await this.#list() : null;
      if (round !== this.#round || !this.isConnected) return;
      this.#session = session;
      this.#take(list);
    } catch (error) {
      if (round !== this.#round || !this.isConnected) return;
      if (!(error instanceof ApiError)) throw error;
      this.#fail(error);
    }
    this.#render();
  }

  readonly #online = (): void => void (this.#error && this.reload());
  readonly #offline = (): void => this.#fail(new ApiError("network", "offline"));

  #list(): Promise<Keys> {
    return this.#api.get<Keys>(`keys?limit=${LIST_MAX}&include_revoked=${this.#revoked}`);
  }

  #take(list: Keys | null): void {
    this.#keys = list?.data ?? null;
    this.#more = list?.has_more === true;
  }

  /** After an end nothing is shown that could be acted on; any other failure leaves the list standing. */
  #fail(error: ApiError): void {
    this.#error = error;
    if (error.trouble === "ended" || error.trouble === "origin") {
      this.#session = this.#keys = null;
      this.#usage?.close();
      this.#usage = null;
      if (!isHeld(this.#dialog)) this.#dialog.close();
    }
    this.#tell("keyrack-error", { trouble: error.trouble });
    this.#render();
  }

  #speak(): void {
    this.#words = new Words(this.locale, this.#strings);
    this.#frame.lang = this.#dialog.lang = this.#words.lang;
    this.#usage?.close();
    this.#usage = null;
    this.#render();
  }

  #tell(name: string, detail: object): void {
    this.dispatchEvent(new CustomEvent(name, { bubbles: true, composed: true, detail }));
  }

  #desk(session: Session): Desk {
    return {
      api: this.#api,
      words: this.#words,
      dialog: this.#dialog,
      session,
      explain: (error) => explain(error, this.#words),
      ended: (error) => this.#fail(error),
      say: (text) => this.#say(text),
      changed: async (what, id) => {
        this.#tell(`keyrack-key-${what}`, { id });
        if (!session.scopes.includes("keys:read")) return;
        try {
          this.#take(await this.#list());
          this.#render();
        } catch (error) {
          if (error instanceof ApiError) this.#fail(error);
        }
      },
    };
  }

  /** Told twice, the same words would be silent: the region is emptied first. */
  #say(text: string): void {
    this.#status.textContent = "";
    requestAnimationFrame(() => {
      this.#status.textContent = text;
    });
  }

  #act(action: Action, key: Key): void {
    if (!this.#session) return;
    if (action === "usage") return this.#toggleUsage(key);
    const ask = action === "rotate" ? askRotate : askRevoke;
    this.#returnFocus(`[data-key="${key.id}"][data-action="${action}"]`, `h3[data-key="${key.id}"]`);
    ask(this.#desk(this.#session), key, nameOf(key, this.#words));
  }

  /** The list is drawn anew behind a dialog: focus goes back by what was pressed, else to the key, else to the title. */
  #returnFocus(...selectors: string[]): void {
    const back = (): void => {
      const found = [...selectors, "#title"].map((one) => this.#root.querySelector<HTMLElement>(one)).find(Boolean);
      found?.focus();
    };
    this.#dialog.addEventListener("close", back, { once: true });
  }

  #toggleUsage(key: Key): void {
    const again = this.#usage?.id === key.id;
    this.#usage?.close();
    this.#usage = again
      ? null
      : new UsagePanel(key.id, nameOf(key, this.#words), this.#api, this.#words, (error) =>
          explain(error, this.#words),
        );
    this.#render();
    this.#root.querySelector<HTMLElement>(`[data-key="${key.id}"][data-action="usage"]`)?.focus();
    void this.#usage?.load();
  }

  #render(): void {
    const [session, words, error] = [this.#session, this.#words, this.#error];
    const may = session?.scopes.includes("keys:write");
    const tools: HTMLElement[] = session && this.#keys ? [this.#filter()] : [];
    if (may && this.#keys?.length !== 0) tools.push(this.#createButton("create"));
    const parts = [header(words, session, tools)];
    if (error) parts.push(alert(words, error, () => void this.reload()));
    if (session?.test_mode) parts.push(testBanner(words));
    if (session && this.#keys) parts.push(...this.#rows(session, this.#keys));
    else if (session) parts.push(blank(words.t("writeOnly")));
    else if (!error) parts.push(waiting(words));
    const focused = this.#root.activeElement?.id;
    this.#frame.setAttribute("aria-busy", String(!session && !error));
    this.#frame.replaceChildren(...parts);
    if (focused) this.#root.getElementById(focused)?.focus();
  }

  #createButton(id: string): HTMLButtonElement {
    const create = (): void => {
      if (!this.#session) return;
      this.#returnFocus(`#${id}`, "#create");
      askCreate(this.#desk(this.#session));
    };
    const props = {
      type: "button",
      class: "main",
      part: "button create",
      "aria-haspopup": "dialog",
      id,
      onclick: create,
    };
    return h("button", props, this.#words.t("create"));
  }

  #filter(): HTMLElement {
    return filter(this.#words, this.#revoked, (on) => {
      this.#revoked = on;
      void this.reload();
    });
  }

  #rows(session: Session, keys: Key[]): HTMLElement[] {
    const words = this.#words;
    if (keys.length === 0) {
      const may = session.scopes.includes("keys:write");
      const text = words.t(may ? "emptyText" : "emptyReadOnly", { project: session.project.name });
      return [blank(text, words.t("empty"), may ? this.#createButton("create-first") : undefined)];
    }
    const openUsage = this.#usage?.id ?? null;
    const host = { words, session, keys, openUsage, act: (action: Action, key: Key) => this.#act(action, key) };
    const rows = keys.map((key) => {
      const row = keyRow(key, host);
      if (this.#usage?.id === key.id) row.append(this.#usage.node);
      return row;
    });
    const list = h("ul", { class: "keys", part: "keys", role: "list", "aria-labelledby": "title" }, ...rows);
    return this.#more ? [list, blank(words.t("more"))] : [list];
  }
}

if (!customElements.get("keyrack-portal")) customElements.define("keyrack-portal", KeyrackPortal);

declare global {
  interface HTMLElementTagNameMap {
    "keyrack-portal": KeyrackPortal;
  }
}
