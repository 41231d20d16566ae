// One card in the middle of the window, for pages before a workspace is open.
import type { ComponentChildren } from "preact";
import { LinkButton } from "../components/button.tsx";
import { Icon, Logo } from "../components/icon.tsx";
import { useHeading } from "../components/page.tsx";
import { Banners } from "../shell/banners.tsx";
import { Toasts } from "../shell/toasts.tsx";

type CardProps = { title: string; tone?: "good" | "bad"; wide?: boolean; children: ComponentChildren };

export function Card({ title, tone, wide = false, children }: CardProps) {
  const heading = useHeading(title);
  return (
    <div class={wide ? "sign-in wide" : "sign-in"}>
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

export function LogInLink() {
  return (
    <p class="after">
      <a href="#/login">Log in</a>
    </p>
  );
}

export function LogInButton() {
  return (
    <div class="buttons">
      <LinkButton kind="primary" href="#/login">
        Log in
      </LinkButton>
    </div>
  );
}
