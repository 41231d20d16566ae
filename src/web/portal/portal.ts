// <keyrack-portal>: a tenant's own API keys inside the vendor's page. It stores nothing, neither cookies nor local
// storage. Its only authority is the embed token from the page, and the server checks it on every request.
import { h, replaceContent, upgradeProperties } from "../shared/dom.ts";
import { Api, ApiError, type Transport } from "./api.ts";
import { announce, createDialog, isShowingKey, preventClosing, revokeDialog, rotateDialog } from "./dialogs.ts";
import type { DialogContext } from "./dialogs.ts";
import { fetchKeys } from "./key-pages.ts";
import { keyRow, nameOf, type Action } from "./keys.ts";
import { Messages, type Strings } from "./messages.ts";
import { fetchQuotas, quotaMeters } from "./quotas.ts";
import { styles } from "./styles.ts";
import { canCreate, type Key, type Keys, type Quota, type Session, type Token } from "./types.ts";
import { UsagePanel } from "./usage.ts";
import { banners, createButton, emptyState, errorAlert, explain, header, loading } from "./view.ts";
import { moreButton, revokedFilter } from "./view.ts";

export type { Strings, Token, Transport };

export type GetToken = () => Promise<Token> | Token;

const SCRIPT_PATH = "/embed/portal.js";

export class KeyrackPortal extends HTMLElement {
  static readonly observedAttributes = ["base-url", "token", "locale"];

  #getToken: GetToken | null = null;
  /** Replaces the network, as for a preview. Only declared: a value set before the upgrade stays. */
  declare transport?: Transport | null;
  readonly #root = this.attachShadow({ mode: "open" });
  readonly #api = new Api({
    baseUrl: () => this.baseUrl,
    transport: () => this.transport ?? null,
    fetchToken: async () => (this.#getToken ? await this.#getToken() : null),
    onExpiring: () => this.#emit("keyrack-token-expiring", {}),
  });
  #messages = new Messages("en", {});
  #strings: Partial<Strings> = {};
  #session: Session | null = null;
  #keys: Key[] | null = null;
  #hasMore = false;
  #pages = 1;
  #quotas: readonly Quota[] = [];
  #showRevoked = false;
  #error: ApiError | null = null;
  #usage: UsagePanel | null = null;
  /** Number of the latest load; the result of an older one is discarded. */
  #loads = 0;
  readonly #frame = h("section", { class: "frame", part: "frame", "aria-labelledby": "title" });
  readonly #status = h("div", { class: "hide", role: "status" });
  readonly #dialog = h("dialog", { part: "dialog", "aria-labelledby": "dialog-title" });

  constructor() {
    super();
    preventClosing(this.#dialog);
  }

  /** Called for the first token, when one is due for renewal, and after a 401. */
  get getToken(): GetToken | null {
    return this.#getToken;
  }
  set getToken(getToken: GetToken | null) {
    this.#getToken = getToken;
    if (getToken && this.#error?.kind === "setup") void this.reload();
  }

  get baseUrl(): string {
    const own = new URL(import.meta.url);
    const fallback = own.pathname.endsWith(SCRIPT_PATH) ? own.origin + own.pathname.slice(0, -SCRIPT_PATH.length) : "";
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
  /** Unlike the attribute, a token set here does not appear in the page's markup. */
  set token(value: Token | null) {
    this.#api.use(value);
    if (this.isConnected && this.#loads > 0) void this.reload();
  }

  /** The page's own texts, by key. */
  set strings(overrides: Partial<Strings>) {
    this.#strings = overrides;
    this.#updateLocale();
  }

  connectedCallback(): void {
    upgradeProperties(this, ["getToken", "token", "strings", "locale", "baseUrl"]);
    this.#root.adoptedStyleSheets = [styles()];
    this.#root.replaceChildren(this.#frame, this.#status, this.#dialog);
    window.addEventListener("online", this.#online);
    window.addEventListener("offline", this.#offline);
    this.#api.start();
    this.#updateLocale();
    // Deferred: the page may set getToken right after it inserts the element.
    queueMicrotask(() => void this.reload());
  }

  disconnectedCallback(): void {
    window.removeEventListener("online", this.#online);
    window.removeEventListener("offline", this.#offline);
    this.#usage?.close();
    this.#usage = null;
    this.#dialog.close();
    this.#dialog.replaceChildren(); // it may show a new key
    this.#api.stop();
  }

  attributeChangedCallback(name: string, _old: string | null, value: string | null): void {
    if (name === "locale") return this.#updateLocale();
    if (name === "token") this.#api.use(value);
    if (this.isConnected && this.#loads > 0) void this.reload();
  }

  /** Loads everything again. */
  async reload(): Promise<void> {
    const load = ++this.#loads;
    this.#error = null;
    this.#render();
    try {
      const session = await this.#api.get<Session>("session");
      const canRead = session.scopes.includes("keys:read");
      const [list, quotas] = canRead ? await Promise.all([this.#fetchKeys(), fetchQuotas(this.#api)]) : [null, []];
      if (load !== this.#loads || !this.isConnected) return;
      this.#session = session;
      this.#quotas = quotas;
      this.#setKeys(list);
    } catch (error) {
      if (load !== this.#loads || !this.isConnected) return;
      if (!(error instanceof ApiError)) throw error;
      this.#fail(error);
    }
    this.#render();
  }

  readonly #online = (): void => void (this.#error && this.reload());
  readonly #offline = (): void => this.#fail(new ApiError("network", "offline"));

  readonly #fetchKeys = (): Promise<Keys> => fetchKeys(this.#api, this.#pages, this.#showRevoked);

  /** Shows the next page below the others, and takes the focus to its first key. */
  async #showMore(): Promise<void> {
    const shown = this.#keys?.length ?? 0;
    this.#pages++;
    await this.reload();
    if (this.#error) this.#pages--;
    this.#root.querySelector<HTMLElement>(`h3[data-key="${this.#keys?.[shown]?.id}"]`)?.focus();
  }

  #setKeys(list: Keys | null): void {
    this.#keys = list?.data ?? null;
    this.#hasMore = list?.has_more === true;
  }

  /** Shows an error. When access has ended it also removes the keys; otherwise the list stays. */
  #fail(error: ApiError): void {
    this.#error = error;
    if (error.kind === "ended" || error.kind === "origin") {
      this.#session = this.#keys = null;
      this.#usage?.close();
      this.#usage = null;
      if (!isShowingKey(this.#dialog)) this.#dialog.close();
    }
    this.#emit("keyrack-error", { trouble: error.kind });
    this.#render();
  }

  #updateLocale(): void {
    this.#messages = new Messages(this.locale, this.#strings);
    this.#frame.lang = this.#dialog.lang = this.#messages.lang;
    this.#usage?.close();
    this.#usage = null;
    this.#render();
  }

  #emit(name: string, detail: object): void {
    this.dispatchEvent(new CustomEvent(name, { bubbles: true, composed: true, detail }));
  }

  #dialogContext(session: Session): DialogContext {
    return {
      api: this.#api,
      messages: this.#messages,
      dialog: this.#dialog,
      session,
      explain: (error) => explain(error, this.#messages),
      onAccessEnded: (error) => this.#fail(error),
      announce: (text) => announce(text, this.#dialog, this.#status),
      onChanged: async (what, id) => {
        if (what) this.#emit(`keyrack-key-${what}`, { id });
        if (!session.scopes.includes("keys:read")) return;
        const load = ++this.#loads;
        try {
          const list = await this.#fetchKeys();
          if (load !== this.#loads) return;
          this.#setKeys(list);
          this.#render();
        } catch (error) {
          if (error instanceof ApiError) this.#fail(error);
        }
      },
    };
  }

  #act(action: Action, key: Key): void {
    if (!this.#session) return;
    if (action === "usage") return this.#toggleUsage(key);
    const openDialog = action === "rotate" ? rotateDialog : revokeDialog;
    this.#restoreFocus(`[data-key="${key.id}"][data-action="${action}"]`, `h3[data-key="${key.id}"]`);
    openDialog(this.#dialogContext(this.#session), key, nameOf(key, this.#messages));
  }

  /** Restores focus when the dialog closes. By selector, because the list is rendered again behind the dialog. */
  #restoreFocus(...selectors: string[]): void {
    const restore = (): void => {
      const found = [...selectors, "#title"].map((one) => this.#root.querySelector<HTMLElement>(one)).find(Boolean);
      found?.focus();
    };
    this.#dialog.addEventListener("close", restore, { once: true });
  }

  #toggleUsage(key: Key): void {
    const wasOpen = this.#usage?.id === key.id;
    this.#usage?.close();
    const why = (error: ApiError): string => explain(error, this.#messages);
    this.#usage = wasOpen ? null : new UsagePanel(key.id, nameOf(key, this.#messages), this.#api, this.#messages, why);
    this.#render();
    this.#root.querySelector<HTMLElement>(`[data-key="${key.id}"][data-action="usage"]`)?.focus();
    void this.#usage?.load();
  }

  #render(): void {
    const [session, messages, error] = [this.#session, this.#messages, this.#error];
    const tools: HTMLElement[] = session && this.#keys ? [this.#revokedFilter()] : [];
    if (session && canCreate(session) && this.#keys?.length !== 0) tools.push(this.#createButton("create"));
    const parts = [header(messages, session, tools)];
    if (error) parts.push(errorAlert(messages, error, () => void this.reload()));
    if (session) parts.push(...banners(messages, session), ...quotaMeters(this.#quotas, messages));
    if (session && this.#keys) parts.push(...this.#rows(session, this.#keys));
    else if (session) parts.push(emptyState(messages.t(canCreate(session) ? "writeOnly" : "errScope")));
    else if (!error) parts.push(loading(messages));
    this.#frame.setAttribute("aria-busy", String(!session && !error));
    replaceContent(this.#root, this.#frame, parts);
  }

  #createButton(id: string): HTMLButtonElement {
    return createButton(this.#messages, id, () => {
      if (!this.#session) return;
      this.#restoreFocus(`#${id}`, "#create");
      createDialog(this.#dialogContext(this.#session));
    });
  }

  #revokedFilter(): HTMLElement {
    return revokedFilter(this.#messages, this.#showRevoked, (on) => {
      this.#showRevoked = on;
      this.#pages = 1;
      void this.reload();
    });
  }

  #rows(session: Session, keys: Key[]): HTMLElement[] {
    const messages = this.#messages;
    if (keys.length === 0) {
      const canWrite = canCreate(session);
      const text = messages.t(canWrite ? "emptyText" : "emptyReadOnly", { project: session.project.name });
      return [emptyState(text, messages.t("empty"), canWrite ? this.#createButton("create-first") : undefined)];
    }
    const onAction = (action: Action, key: Key): void => this.#act(action, key);
    const context = { messages, session, keys, openUsage: this.#usage?.id ?? null, onAction };
    const rows = keys.map((key) => {
      const row = keyRow(key, context);
      if (this.#usage?.id === key.id) row.append(this.#usage.node);
      return row;
    });
    const list = h("ul", { class: "keys", part: "keys", role: "list", "aria-labelledby": "title" }, ...rows);
    return this.#hasMore ? [list, moreButton(messages, () => void this.#showMore())] : [list];
  }
}

if (!customElements.get("keyrack-portal")) customElements.define("keyrack-portal", KeyrackPortal);

declare global {
  interface HTMLElementTagNameMap {
    "keyrack-portal": KeyrackPortal;
  }
}
