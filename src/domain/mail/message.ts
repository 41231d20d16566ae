// Outgoing mail, and the interface of a mail transport. The outbox queues messages; a transport delivers them.

/** `date` is when it was queued. */
export type Mail = { id: string; message_id: string; to: string; subject: string; text: string; date: number };

export interface MailTransport {
  deliver(mail: Mail): Promise<void>;
  /** Deletes messages past their retention. */
  prune(): Promise<void>;
  close(): void;
}

/** The transport, and `wake`, which makes the worker deliver the outbox now. */
export type Mailer = { readonly transport: MailTransport; wake: () => void };

/** Permanently rejected by the receiving server: do not retry. */
export class MailRefused extends Error {}
