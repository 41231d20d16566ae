// One card in the middle of the window, for pages before a workspace is open.
import type { ComponentChildren } from "preact";
import { Icon, Logo } from "../parts/icon.tsx";
import { useHeading } from "../parts/page.tsx";
import { Banners } from "../shell/banners.tsx";
import { Toasts } from "../shell/toasts.tsx";

type CardProps = { title: string; tone?: "good" | "bad"; wide?: boolean; children: ComponentChildren };

export function Card({ title, tone, wide = false, children }: CardProps) {
  const heading = useHeading(title);
  return (
    <div class={wide ? "enter wide" : "enter"}>
      <header>
        <Banners hasEnv={false} />
        <a class="brand" href="#/">
          <Logo />
          Keyrack
        </a>
      </header>
      <main class="card">
        {tone && (
          <span class={`card-mark ${tone}`}>
            <Icon name={tone === "good" ? "check" : "alert"} size={22} />
          </span>
        )}
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        <div class="card-body">{children}</div>
      </main>
      <Toasts />
    </div>
  );
}
