// The page of one record, with the way back to its list.
import type { ComponentChildren } from "preact";
import { isNotFound, type Read } from "../api/query.ts";
import { hrefToList } from "../links.ts";
import { Page } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";

type RecordPageProps<T> = {
  read: Read<T>;
  /** Its type: "Tenant". */
  type: string;
  title: (of: T) => string;
  actions: (of: T) => ComponentChildren;
  children: (of: T) => ComponentChildren;
};

export function RecordPage<T>({ read, type, title, actions, children }: RecordPageProps<T>) {
  const of = read.state.value.data;
  const list = `${type}s`;
  return (
    <Page
      isMissing={isNotFound(read)}
      title={of ? title(of) : type}
      back={{ href: hrefToList(list.toLowerCase()), label: list }}
      actions={of && actions(of)}
    >
      <Loaded read={read}>{children}</Loaded>
    </Page>
  );
}
