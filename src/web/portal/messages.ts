// Translates and formats everything the portal shows.
import { de } from "./locales/de.ts";
import { en, type Strings } from "./locales/en.ts";

export type { Strings };

const languages: Record<string, Strings> = { en, de };

/** Texts and formats in one language, with the page's own texts on top. */
export class Messages {
  readonly locale: string;
  /** The language of the texts, which is not always the locale's. */
  readonly lang: string;
  readonly #strings: Strings;

  constructor(locale: string, overrides: Partial<Strings>) {
    this.locale = canonical(locale) ?? "en";
    const base = this.locale.split("-")[0] ?? "en";
    this.lang = languages[base] ? base : Object.keys(overrides).length > 0 ? this.locale : "en";
    this.#strings = { ...(languages[base] ?? en), ...overrides };
  }

  t(name: keyof Strings, values: Record<string, string | number> = {}): string {
    return this.#strings[name].replace(/\{(\w+)\}/g, (_all, key: string) => String(values[key] ?? ""));
  }

  number(value: number, options?: Intl.NumberFormatOptions): string {
    return new Intl.NumberFormat(this.locale, options).format(value);
  }

  /** A date; with the time of day when it is less than two days away. */
  date(iso: string): string {
    const at = new Date(iso);
    const near = Math.abs(at.getTime() - Date.now()) < 2 * 86_400_000;
    const clock = { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" } as const;
    return new Intl.DateTimeFormat(this.locale, near ? clock : { dateStyle: "medium" }).format(at);
  }

  time(iso: string): string {
    return new Intl.DateTimeFormat(this.locale, { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));
  }

  /** A UTC day, as usage is counted. */
  day(day: string, options: Intl.DateTimeFormatOptions = { month: "short", day: "numeric" }): string {
    return new Intl.DateTimeFormat(this.locale, { ...options, timeZone: "UTC" }).format(new Date(`${day}T00:00:00Z`));
  }
}

/** Tags are the same in any case. */
function canonical(locale: string): string | undefined {
  try {
    return Intl.getCanonicalLocales(locale)[0];
  } catch {
    return undefined;
  }
}
