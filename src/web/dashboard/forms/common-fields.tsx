// Fields that several dialogs share.
import { useState } from "preact/hooks";
import { slugOf } from "../../../kernel/slugs.ts";
import { TextField } from "./field.tsx";

/** Why something is done. */
export function ReasonField() {
  return <TextField name="reason" label="Reason" optional hint="Kept in the audit log." />;
}

/** The body of a request with an optional reason. */
export const reasonOf = ({ reason = "" }: { reason?: string }): { reason?: string } =>
  reason === "" ? {} : { reason };

type SlugProps = {
  /** The names of the API's fields. */
  name: string;
  slug: string;
  nameLabel: string;
  slugLabel: string;
  hint: string;
  autocomplete?: string;
};

/** A name, and a slug that follows it until it is edited. */
export function NameAndSlugFields({ name, slug, nameLabel, slugLabel, hint, autocomplete = "off" }: SlugProps) {
  const [text, setText] = useState("");
  const [own, setOwn] = useState<string | null>(null);
  return (
    <>
      <TextField name={name} label={nameLabel} autocomplete={autocomplete} value={text} onInput={setText} />
      <TextField name={slug} label={slugLabel} mono value={own ?? slugOf(text)} onInput={setOwn} hint={hint} />
    </>
  );
}

const WORKSPACE_HINT = "Part of the address of your pages. It cannot change.";

/** `prefix`: of the names of the API's fields. */
export function WorkspaceFields({ prefix = "" }: { prefix?: string }) {
  return (
    <NameAndSlugFields
      name={`${prefix}name`}
      slug={`${prefix}slug`}
      nameLabel="Workspace name"
      slugLabel="Workspace slug"
      hint={WORKSPACE_HINT}
      autocomplete="organization"
    />
  );
}
