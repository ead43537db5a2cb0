// SPDX-License-Identifier: Apache-2.0
// Which annotations of a pod must change after a pass, and the patch that loses nobody's write. No I/O.
import {
  names,
  parseNetworkStatus,
  printNetworkStatus,
  printAttachmentErrors,
  type NetworkStatus,
  type JsonPatchOperation,
  type AttachmentError,
} from "@patchbay/api";
import { isEqual, pointerToken } from "@patchbay/core";

/** Text by name of the annotation; undefined: absent, or to be taken away. */
export type Annotations = Readonly<Record<string, string | undefined>>;

/** The annotations of ours that must change; text that means the same is left as it is. */
export function changedAnnotations(
  current: Annotations,
  entries: readonly NetworkStatus[],
  errors: ReadonlyMap<string, AttachmentError>,
): Annotations {
  const before = current[names.NETWORK_STATUS_ANNOTATION];
  const isSame = isEqual(parseNetworkStatus(before), entries);
  const errorsText = printAttachmentErrors(errors);
  return {
    ...(isSame ? {} : { [names.NETWORK_STATUS_ANNOTATION]: printNetworkStatus(entries) }),
    ...(errorsText === current[names.ATTACHMENT_ERRORS_ANNOTATION]
      ? {}
      : { [names.ATTACHMENT_ERRORS_ANNOTATION]: errorsText }),
  };
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
      const path = `/metadata/annotations/${pointerToken(name)}`;
      const before = annotations?.[name];
      return [
        ...(before === undefined ? [] : [{ op: "test", path, value: before } as const]),
        text === undefined ? { op: "remove", path } : { op: "add", path, value: text },
      ];
    }),
  ];
}
