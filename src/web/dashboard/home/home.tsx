// Home: what the workspace has, at a glance.
import { Page } from "../parts/page.tsx";

export function Home() {
  return <Page title="Home" />;
}
