// Every word the portal says. A page may replace any of them through the element's `strings` property.
const en = {
  title: "API keys",
  for: "{tenant} · {project}",
  create: "Create key",
  testMode: "Test mode",
  testModeText: "These keys work in the test environment only.",
  loading: "Loading keys…",
  empty: "No keys yet",
  emptyText: "Create a key to start calling {project}.",
  emptyReadOnly: "Keys that are made for you appear here.",
  showRevoked: "Show revoked keys",
  more: "Only the newest 100 keys are shown.",
  unnamed: "Unnamed key",
  created: "Created",
  lastUsed: "Last used",
  expires: "Expires",
  expired: "Expired",
  revoked: "Revoked",
  never: "Never",
  scopes: "Scopes",
  noScopes: "None",
  active: "Active",
  replaced: "Being replaced",
  quarantined: "Reported as leaked",
  replacedBy: "Replaced by {prefix}…: change over before it expires.",
  quarantinedText: "This key was found in a public place and stops working soon. Rotate it now.",
  usage: "Usage",
  rotate: "Rotate",
  revoke: "Revoke",
  ofKey: "{action}: {name}",
  cancel: "Cancel",
  name: "Name",
  nameHint: "Where the key is used, for example “Billing server”.",
  optional: "optional",
  scopesHint: "What the key may do. Choose as few as it needs.",
  shownTitle: "Copy your key now",
  shownText: "This is the only time it is shown. Keep it in a secret store: whoever holds it can act as you.",
  yourKey: "Your key",
  copy: "Copy",
  copied: "Copied",
  copyByHand: "Press Ctrl+C or ⌘C to copy",
  stored: "I have stored it",
  rotateTitle: "Rotate {name}",
  rotateText: "A new key is made now. The old one keeps working for as long as you choose, so you can change over.",
  overlap: "Keep the old key working for",
  overlap0: "No time: stop it now",
  overlap1: "1 hour",
  overlap24: "24 hours",
  overlap72: "3 days",
  overlap168: "7 days",
  oldUntil: "The old key {prefix}… works until {time}.",
  revokeTitle: "Revoke {name}?",
  revokeText: "Every request with {prefix}… will be refused, within seconds. This cannot be undone.",
  reason: "Reason",
  revokeDo: "Revoke key",
  working: "One moment…",
  days: "Last {n} days",
  requests: "Requests",
  errors: "Errors",
  usageSum: "{requests} requests, {errors} errors ({share}) in the last {n} days",
  usageNone: "No requests in the last {n} days.",
  asTable: "Show as a table",
  day: "Day",
  retry: "Try again",
  keyCreated: "Key created.",
  keyRotated: "New key made.",
  keyRevoked: "Key revoked.",
  errEnded: "Your access to this page has ended.",
  errEndedText: "Reload the page or sign in again to go on.",
  errOrigin: "This page is not allowed to manage keys.",
  errOriginText: "Its address is not registered, or not for you. Please tell the owner of this page.",
  errScope: "You are not allowed to do this here.",
  errGone: "This key does not exist any more.",
  errBusy: "Too many requests. Try again in {seconds} seconds.",
  errServer: "The key service has a problem. Please try again.",
  errNetwork: "The key service cannot be reached.",
  errNetworkText: "Check your connection. If it is fine, this page may not be allowed to manage keys.",
  errOffline: "You are offline.",
  errOfflineText: "Your keys appear again when the connection is back.",
  errSetup: "This page has not set up key management completely.",
  reference: "Reference: {id}",
  writeOnly: "You may create keys here, but not see the existing ones.",
};

export type Strings = typeof en;

const de: Strings = {
  title: "API-Schlüssel",
  for: "{tenant} · {project}",
  create: "Schlüssel erstellen",
  testMode: "Testmodus",
  testModeText: "Diese Schlüssel gelten nur in der Testumgebung.",
  loading: "Schlüssel werden geladen …",
  empty: "Noch keine Schlüssel",
  emptyText: "Erstellen Sie einen Schlüssel, um {project} zu nutzen.",
  emptyReadOnly: "Hier erscheinen Schlüssel, die für Sie erstellt werden.",
  showRevoked: "Widerrufene anzeigen",
  more: "Es werden nur die neuesten 100 Schlüssel gezeigt.",
  unnamed: "Schlüssel ohne Namen",
  created: "Erstellt",
  lastUsed: "Zuletzt benutzt",
  expires: "Läuft ab",
  expired: "Abgelaufen",
  revoked: "Widerrufen",
  never: "Nie",
  scopes: "Rechte",
  noScopes: "Keine",
  active: "Aktiv",
  replaced: "Wird ersetzt",
  quarantined: "Als öffentlich gemeldet",
  replacedBy: "Ersetzt durch {prefix}…: Stellen Sie um, bevor er abläuft.",
  quarantinedText: "Dieser Schlüssel wurde öffentlich gefunden und gilt bald nicht mehr. Erneuern Sie ihn jetzt.",
  usage: "Nutzung",
  rotate: "Erneuern",
  revoke: "Widerrufen",
  ofKey: "{action}: {name}",
  cancel: "Abbrechen",
  name: "Name",
  nameHint: "Wo der Schlüssel benutzt wird, etwa „Abrechnungsserver“.",
  optional: "freiwillig",
  scopesHint: "Was der Schlüssel darf. Wählen Sie so wenig wie nötig.",
  shownTitle: "Kopieren Sie Ihren Schlüssel jetzt",
  shownText: "Er wird nur dieses eine Mal gezeigt. Bewahren Sie ihn sicher auf: Wer ihn hat, kann für Sie handeln.",
  yourKey: "Ihr Schlüssel",
  copy: "Kopieren",
  copied: "Kopiert",
  copyByHand: "Strg+C oder ⌘C drücken",
  stored: "Ich habe ihn aufbewahrt",
  rotateTitle: "{name} erneuern",
  rotateText: "Ein neuer Schlüssel wird erstellt. Der alte gilt so lange weiter, wie Sie wählen.",
  overlap: "Der alte Schlüssel gilt noch",
  overlap0: "Gar nicht: sofort beenden",
  overlap1: "1 Stunde",
  overlap24: "24 Stunden",
  overlap72: "3 Tage",
  overlap168: "7 Tage",
  oldUntil: "Der alte Schlüssel {prefix}… gilt bis {time}.",
  revokeTitle: "{name} widerrufen?",
  revokeText: "Jede Anfrage mit {prefix}… wird binnen Sekunden abgelehnt. Das lässt sich nicht rückgängig machen.",
  reason: "Grund",
  revokeDo: "Schlüssel widerrufen",
  working: "Einen Moment …",
  days: "Letzte {n} Tage",
  requests: "Anfragen",
  errors: "Fehler",
  usageSum: "{requests} Anfragen, {errors} Fehler ({share}) in den letzten {n} Tagen",
  usageNone: "Keine Anfragen in den letzten {n} Tagen.",
  asTable: "Als Tabelle zeigen",
  day: "Tag",
  retry: "Noch einmal versuchen",
  keyCreated: "Schlüssel erstellt.",
  keyRotated: "Neuer Schlüssel erstellt.",
  keyRevoked: "Schlüssel widerrufen.",
  errEnded: "Ihr Zugang zu dieser Seite ist beendet.",
  errEndedText: "Laden Sie die Seite neu oder melden Sie sich wieder an.",
  errOrigin: "Diese Seite darf keine Schlüssel verwalten.",
  errOriginText: "Ihre Adresse ist nicht eingetragen. Bitte sagen Sie es dem Betreiber der Seite.",
  errScope: "Das dürfen Sie hier nicht.",
  errGone: "Diesen Schlüssel gibt es nicht mehr.",
  errBusy: "Zu viele Anfragen. Versuchen Sie es in {seconds} Sekunden wieder.",
  errServer: "Der Schlüsseldienst hat eine Störung. Bitte versuchen Sie es noch einmal.",
  errNetwork: "Der Schlüsseldienst ist nicht zu erreichen.",
  errNetworkText:
    "Prüfen Sie Ihre Verbindung. Ist sie in Ordnung, darf diese Seite vielleicht keine Schlüssel verwalten.",
  errOffline: "Sie sind offline.",
  errOfflineText: "Ihre Schlüssel erscheinen wieder, sobald die Verbindung steht.",
  errSetup: "Diese Seite hat die Schlüsselverwaltung nicht vollständig eingerichtet.",
  reference: "Kennung: {id}",
  writeOnly: "Sie dürfen hier Schlüssel erstellen, aber die vorhandenen nicht sehen.",
};

const languages: Record<string, Strings> = { en, de };

export class Words {
  readonly locale: string;
  /** The language the words are in, which is not always the locale's. */
  readonly lang: string;
  readonly #strings: Strings;

  constructor(locale: string, own: Partial<Strings>) {
    this.locale = known(locale) ? locale : "en";
    const base = this.locale.split("-")[0] ?? "en";
    this.lang = languages[base] ? base : Object.keys(own).length > 0 ? this.locale : "en";
    this.#strings = { ...(languages[base] ?? en), ...own };
  }

  t(name: keyof Strings, values: Record<string, string | number> = {}): string {
    return this.#strings[name].replace(/\{(\w+)\}/g, (_all, key: string) => String(values[key] ?? ""));
  }

  number(value: number, options?: Intl.NumberFormatOptions): string {
    return new Intl.NumberFormat(this.locale, options).format(value);
  }

  /** A date; with the time of day when it is less than two days off. */
  near(iso: string): string {
    const at = new Date(iso);
    const near = Math.abs(at.getTime() - Date.now()) < 2 * 86_400_000;
    const clock = { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" } as const;
    return new Intl.DateTimeFormat(this.locale, near ? clock : { dateStyle: "medium" }).format(at);
  }

  time(iso: string): string {
    return new Intl.DateTimeFormat(this.locale, { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));
  }

  /** A UTC day of the usage figures. */
  day(day: string, options: Intl.DateTimeFormatOptions = { month: "short", day: "numeric" }): string {
    return new Intl.DateTimeFormat(this.locale, { ...options, timeZone: "UTC" }).format(new Date(`${day}T00:00:00Z`));
  }
}

function known(locale: string): boolean {
  try {
    return Intl.getCanonicalLocales(locale).length > 0;
  } catch {
    return false;
  }
}
