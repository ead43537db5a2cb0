// SPDX-License-Identifier: Apache-2.0
// What the pod's annotations say after a pass: our entries by interface, everybody else's untouched. No I/O.
import {
  names,
  parseNetworkStatus,
  printNetworkStatus,
  type NetworkStatus,
  type JsonPatchOperation,
} from "@patchbay/api";
import { networkStatusesOf, type JournalRow } from "@patchbay/cni";
import { isEqual } from "@patchbay/core";
import type { AttachmentError } from "../../failures.ts";

/** Annotations by name; undefined: absent. */
export type Annotations = Readonly<Record<string, string | undefined>>;

function entriesOf({ result, network, request }: JournalRow): readonly NetworkStatus[] {
  return result === undefined ? [] : networkStatusesOf(result, network, request.interfaceName);
}

/** The NICs that an attachment has, or had, in the pod. */
export function interfacesOf(row: JournalRow): readonly string[] {
  const told = entriesOf(row).flatMap((entry) => entry.interface ?? []);
  return [...new Set([row.request.interfaceName, ...told])];
}

/**
 * The entries of `network-status`: a foreign one stays where it is, ours is replaced in its place or appended in the
 * order in which attachments were begun. `live` are the rows of the sandbox that is there, `all` also those of past ones.
 */
export function mergeNetworkStatus(
  current: readonly NetworkStatus[],
  live: readonly JournalRow[],
  all: readonly JournalRow[],
): readonly NetworkStatus[] {
  // What the runtime has made it has told as well; it becomes ours when it goes.
  const isOurs = (row: JournalRow): boolean => row.isAdopted !== true || row.state === "removed";
  const own = new Set(all.filter(isOurs).flatMap(interfacesOf));
  const entries = live.filter((row) => isOurs(row) && row.state === "attached").flatMap(entriesOf);
  const kept = current.flatMap((entry) =>
    entry.interface === undefined || !own.has(entry.interface)
      ? [entry]
      : entries.filter(({ interface: name }) => name === entry.interface),
  );
  const placed = new Set(kept.map((entry) => entry.interface));
  return [...kept, ...entries.filter((entry) => !placed.has(entry.interface))];
}

function printErrors(errors: ReadonlyMap<string, AttachmentError>): string | undefined {
  if (errors.size === 0) return undefined;
  const sorted = [...errors].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(Object.fromEntries(sorted));
}

/** The annotations of ours that must change; text that means the same is left as it is. */
export function changedAnnotations(
  current: Annotations,
  entries: readonly NetworkStatus[],
  errors: ReadonlyMap<string, AttachmentError>,
): Annotations {
  const before = current[names.NETWORK_STATUS_ANNOTATION];
  const isSame = isEqual(parseNetworkStatus(before), entries);
  const errorsText = printErrors(errors);
  return {
    ...(isSame ? {} : { [names.NETWORK_STATUS_ANNOTATION]: printNetworkStatus(entries) }),
    ...(errorsText === current[names.ATTACHMENT_ERRORS_ANNOTATION]
      ? {}
      : { [names.ATTACHMENT_ERRORS_ANNOTATION]: errorsText }),
  };
}

function pathOf(annotation: string): string {
  return `/metadata/annotations/${annotation.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** One JSON patch that fails when the pod is another one or an annotation is no longer what was read. Source: RFC 6902. */
export function annotationPatch(
  pod: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations: Annotations | undefined;
  },
  changed: Annotations,
): readonly JsonPatchOperation[] {
  const { uid, resourceVersion, annotations } = pod;
  const changes = Object.entries(changed);
  // Absence cannot be tested for, so the version is.
  const isNew = changes.some(([name]) => annotations?.[name] === undefined);
  return [
    { op: "test", path: "/metadata/uid", value: uid },
    ...(isNew
      ? [{ op: "test", path: "/metadata/resourceVersion", value: resourceVersion } as const]
      : []),
    ...(annotations === undefined
      ? [{ op: "add", path: "/metadata/annotations", value: {} } as const]
      : []),
    ...changes.flatMap(([name, text]): JsonPatchOperation[] => {
      const path = pathOf(name);
      const before = annotations?.[name];
      return [
        ...(before === undefined ? [] : [{ op: "test", path, value: before } as const]),
        text === undefined ? { op: "remove", path } : { op: "add", path, value: text },
      ];
    }),
  ];
}
