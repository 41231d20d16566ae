// Row types of the person plane: accounts, sessions, memberships, invitations, one-time tokens, mail.
export type UserRow = {
  id: string;
  email: string;
  email_key: string;
  email_verified_at: number | null;
  name: string | null;
  password_phc: string;
  last_workspace_id: string | null;
  created_at: number;
  updated_at: number;
  last_login_at: number | null;
};

export type Role = "owner" | "admin" | "member";

export type MembershipRow = {
  workspace_id: string;
  user_id: string;
  role: Role;
  created_at: number;
  updated_at: number;
};

export type SessionRow = {
  id: string;
  user_id: string;
  lookup_hash: string;
  display_prefix: string;
  active_workspace_id: string | null;
  created_at: number;
  last_seen_at: number;
  expires_at: number;
  absolute_expires_at: number;
  revoked_at: number | null;
};

export type WorkspaceInviteRow = {
  id: string;
  workspace_id: string;
  email: string;
  email_key: string;
  role: Role;
  invited_by: string | null;
  token_hash: string;
  mailed_token_hash: string;
  created_at: number;
  expires_at: number;
  accepted_at: number | null;
  revoked_at: number | null;
};

export type TokenPurpose = "email_verification" | "password_reset";

export type OneTimeTokenRow = {
  token_hash: string;
  user_id: string;
  purpose: TokenPurpose;
  created_at: number;
  expires_at: number;
  ended_at: number | null;
};

export type SetupTokenRow = { token_hash: string; created_at: number; expires_at: number; ended_at: number | null };

export type LoginFailureRow = { address_key: string; bucket: string; consecutive: number; failed_at: number };
export type LoginNetworkRow = { address_key: string; network_key: string; succeeded_at: number };

export type OutboxState = "queued" | "sent" | "dead";

export type OutboxRow = {
  id: string;
  kind: string;
  recipient: string;
  message_id: string;
  sealed_message: Uint8Array | null;
  state: OutboxState;
  attempts: number;
  created_at: number;
  next_at: number;
  give_up_at: number;
  settled_at: number | null;
  last_error: string | null;
  account_id: string | null;
};

export type MailCountRow = {
  id: string;
  kind: string;
  account_id: string | null;
  address_key: string;
  counted_at: number;
  sends_at: number | null;
};

export type PeopleTables = {
  users: UserRow;
  memberships: MembershipRow;
  sessions: SessionRow;
  workspace_invites: WorkspaceInviteRow;
  one_time_tokens: OneTimeTokenRow;
  setup_tokens: SetupTokenRow;
  login_failures: LoginFailureRow;
  login_networks: LoginNetworkRow;
  outbox: OutboxRow;
  mail_counts: MailCountRow;
};
