// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../kinds/storage/claim.ts";
import type { KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import type { AdmissionQuestion } from "./admission.ts";
import { refuseUploadClaims } from "./upload-claim.ts";

const UPLOAD = "cdi.kubevirt.io/storage.upload.target";

function claim(annotations?: Record<string, string>): KubeObject {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "c", namespace: "ns", ...(annotations && { annotations }) },
  };
}

const WAITING = claim({ [UPLOAD]: "" });

const NEW_CLAIM: AdmissionQuestion = {
  kind: PERSISTENT_VOLUME_CLAIM,
  subresource: "",
  operation: "CREATE",
  namespace: "ns",
  name: "c",
  object: WAITING,
  oldObject: undefined,
  options: {},
  user: { name: "u", groups: [] },
  dryRun: false,
  warnings: [],
};

/** A store with CDI's definition, which has these labels. */
function storeWith(labels: Record<string, string> | undefined) {
  const view = () => ({ metadata: { name: "datavolumes.cdi.kubevirt.io", labels } });
  return { find: () => ({ view }) as unknown as StoredObject }; // only its view is read
}

const NO_CDI = { find: () => undefined };

test.each<{ name: string; change?: Partial<AdmissionQuestion>; store?: typeof NO_CDI }>([
  { name: "another kind", change: { kind: CONFIG_MAP } },
  { name: "a status", change: { subresource: "status" } },
  { name: "a deletion", change: { operation: "DELETE", object: undefined, oldObject: WAITING } },
  { name: "a claim without annotations", change: { object: claim() } },
  { name: "a claim with another annotation", change: { object: claim({ a: "b" }) } },
  { name: "a claim that waited before", change: { operation: "UPDATE", oldObject: WAITING } },
])("$name is accepted", ({ change }) => {
  expect(() => {
    refuseUploadClaims({ ...NEW_CLAIM, ...change }, NO_CDI);
  }).not.toThrow();
});

test.each([
  { name: "whose definition has other labels", labels: { "app.kubernetes.io/part-of": "cdi" } },
  { name: "whose definition has no such label", labels: {} },
])("a claim for a CDI $name is accepted", ({ labels }) => {
  expect(() => {
    refuseUploadClaims(NEW_CLAIM, storeWith(labels));
  }).not.toThrow();
});

test.each([
  { name: "without any definition", store: NO_CDI, change: {} },
  {
    name: "with the machine's own definition",
    store: storeWith({ "app.kubernetes.io/part-of": "patchbay" }),
    change: {},
  },
  {
    name: "when it begins to wait later",
    store: NO_CDI,
    change: { operation: "UPDATE", oldObject: claim() } as const,
  },
])("a claim is refused $name, with the field and the reason", ({ store, change }) => {
  let refusal: unknown;
  try {
    refuseUploadClaims({ ...NEW_CLAIM, ...change }, store);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toMatchObject({
    code: 422,
    details: {
      name: "c",
      causes: [
        {
          reason: "FieldValueNotSupported",
          field: `metadata.annotations[${UPLOAD}]`,
          message: expect.stringMatching(/^Patchbay does not have \S/) as string,
        },
      ],
    },
  });
});
