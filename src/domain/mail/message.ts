// A message on its way out, and what a transport is. The domain queues messages; this room only carries them.

/** A message as a transport gets it. `date` is when it was queued. */
export type Mail = { id: string; message_id: string; to: string; subject: string; text: string; date: number };

export interface MailTransport {
  deliver(mail: Mail): Promise<void>;
  /** Removes what has been kept long enough. */
  tidy(): Promise<void>;
  close(): void;
}

/** The transport, and `wake`, which makes the worker deliver the outbox now. */
export type Mailer = { readonly transport: MailTransport; wake: () => void };

/** The other side said no for good: trying again would only annoy it. */
export class MailRefused extends Error {}
