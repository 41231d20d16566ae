// The pages of a workspace, in the order of the navigation. A page is reachable as soon as it has a row here.
import type { FunctionComponent } from "preact";
import type { IconName } from "./components/icon.tsx";
import type { HasEnv } from "./shell/banners.tsx";
// Measured order: it decides what is near in the script, and gzip refers back 32 kB at most. 1 kB less than by name.
import { InstancePage } from "./instance/instance.tsx";
import { Audit } from "./audit/audit.tsx";
import { AuditRowPage } from "./audit/row.tsx";
import { UsagePage } from "./usage/usage.tsx";
import { Settings } from "./settings/settings.tsx";
import { KeyPage } from "./keys/key.tsx";
import { FleetPage } from "./fleet/fleet.tsx";
import { Home } from "./home/home.tsx";
import { PlanPage } from "./plans/plan.tsx";
import { TenantPage } from "./tenants/tenant.tsx";
import { Tenants } from "./tenants/tenants.tsx";
import { Projects } from "./projects/projects.tsx";
import { LeaksPage } from "./leaks/leaks.tsx";
import { Plans } from "./plans/plans.tsx";
import { PortalPage } from "./portal/portal.tsx";
import { ProjectPage } from "./projects/project.tsx";
import { Keys } from "./keys/keys.tsx";
import { Developers } from "./developers/developers.tsx";
import { Members } from "./members/members.tsx";

type WorkspacePage = {
  /** Its name in the address. */
  page: string;
  title: string;
  icon: IconName;
  /**
   * Whether it shows data of the environment: false for pages that have none, "both" for those that show live and test
   * together, "records" where only the list does.
   */
  hasEnv: HasEnv | "records";
  Show: FunctionComponent;
  /** The page of one record, if there is one. */
  ShowRecord?: FunctionComponent<{ id: string }>;
};

export const PAGES: readonly WorkspacePage[] = [
  { page: "home", title: "Home", icon: "home", hasEnv: true, Show: Home },
  { page: "keys", title: "Keys", icon: "key", hasEnv: true, Show: Keys, ShowRecord: KeyPage },
  { page: "tenants", title: "Tenants", icon: "tenant", hasEnv: "records", Show: Tenants, ShowRecord: TenantPage },
  { page: "projects", title: "Projects", icon: "project", hasEnv: "records", Show: Projects, ShowRecord: ProjectPage },
  { page: "plans", title: "Plans", icon: "plan", hasEnv: false, Show: Plans, ShowRecord: PlanPage },
  { page: "usage", title: "Usage", icon: "usage", hasEnv: true, Show: UsagePage },
  { page: "fleet", title: "Fleet", icon: "fleet", hasEnv: true, Show: FleetPage },
  { page: "leaks", title: "Leaks", icon: "leak", hasEnv: true, Show: LeaksPage },
  { page: "audit", title: "Audit", icon: "audit", hasEnv: "both", Show: Audit, ShowRecord: AuditRowPage },
  { page: "portal", title: "Portal", icon: "portal", hasEnv: true, Show: PortalPage },
  { page: "developers", title: "Developers", icon: "code", hasEnv: "both", Show: Developers },
  { page: "members", title: "Members", icon: "members", hasEnv: false, Show: Members },
  { page: "settings", title: "Settings", icon: "settings", hasEnv: false, Show: Settings },
  { page: "instance", title: "Instance", icon: "server", hasEnv: false, Show: InstancePage },
];
