// SPDX-License-Identifier: Apache-2.0
import { DATA_VOLUMES, type DataVolume } from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { asked, causesOf } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { validate } from "./validate.ts";

const STORAGE = { resources: { requests: { storage: "1Gi" } } };

function aDataVolume(source: object): DataVolume {
  return {
    apiVersion: "cdi.kubevirt.io/v1beta1",
    kind: DATA_VOLUMES.kind,
    metadata: { name: "root", namespace: "ns" },
    spec: { source, storage: STORAGE },
  };
}

const GOOD = aDataVolume({ http: { url: "https://example.org/a.qcow2" } });
const OTHER = aDataVolume({ http: { url: "https://example.org/b.qcow2" } });

test.each([
  { name: "a source that the machine has", object: GOOD, old: undefined, fields: [] },
  {
    name: "an upload",
    object: aDataVolume({ upload: {} }),
    old: undefined,
    fields: ["FieldValueNotSupported spec.source.upload"],
  },
  { name: "a change of its labels", object: GOOD, old: GOOD, fields: [] },
  {
    name: "a change of its source",
    object: OTHER,
    old: GOOD,
    fields: ["FieldValueForbidden spec"],
  },
])("$name is judged: $fields", async ({ object, old, fields }) => {
  const verdict = await validate(depsOn(createFakeStore()), asked(object, old));
  expect(causesOf(verdict)).toEqual(fields);
});
