// The head of a project: its policy version, and what a poll needs to decide whether anything changed.
export type Head = {
  readonly project_id: string;
  readonly workspace_id: string;
  readonly version: number;
  readonly min_delta_version: number;
  readonly default_rate_limits: string;
  readonly deleted: boolean;
  /** Capabilities that the project's keys have ever needed. */
  readonly features: number;
  /** The prefixes of its keys, as a JSON list. */
  readonly key_prefixes: string;
};
