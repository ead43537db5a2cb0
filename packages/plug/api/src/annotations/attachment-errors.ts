// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation `patchbay.io/attachment-errors`: net-agent writes it, virt-controller reads it.
import { isJsonObject, parseJson } from "../values/json.ts";

/** Why one attachment fails. */
export interface AttachmentError {
  /** Stable, in CamelCase; docs/reference/phases.md. */
  readonly reason: string;
  /** For people. */
  readonly message: string;
}

/** Why attachments fail, by pod NIC. */
export type AttachmentErrors = Readonly<Record<string, AttachmentError>>;

function isAttachmentError(value: unknown): value is AttachmentError {
  return (
    isJsonObject(value) &&
    typeof value["reason"] === "string" &&
    typeof value["message"] === "string"
  );
}

/** Reads the annotation; what cannot be read says nothing: it is only a reason for people, the attachment is still awaited. */
export function parseAttachmentErrors(text: string | undefined): AttachmentErrors {
  const value = parseJson(text);
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([nic, error]) =>
      isAttachmentError(error) ? [[nic, error] as const] : [],
    ),
  );
}

/** Writes the annotation, sorted by NIC, so that the same errors are the same text; undefined: there are none. */
export function printAttachmentErrors(
  errors: ReadonlyMap<string, AttachmentError>,
): string | undefined {
  if (errors.size === 0) return undefined;
  const sorted = [...errors].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(Object.fromEntries(sorted));
}
