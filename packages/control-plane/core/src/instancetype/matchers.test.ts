// SPDX-License-Identifier: Apache-2.0
// How a VM names its instancetype and preference. Source of the words: KubeVirt pkg/instancetype/webhooks/vm/mutator.go.
import type { Matcher, VirtualMachine } from "@patchbay/api";
import { aVm } from "@patchbay/support";
import { expect, test } from "vitest";
import { validateMatchers } from "./matchers.ts";

function vmOf(instancetype?: Matcher, preference?: Matcher): VirtualMachine {
  const vm = aVm();
  return {
    ...vm,
    spec: {
      ...vm.spec,
      ...(instancetype === undefined ? {} : { instancetype }),
      ...(preference === undefined ? {} : { preference }),
    },
  };
}

test.each<{ name: string; vm: VirtualMachine; old?: VirtualMachine; want: readonly string[] }>([
  { name: "none", vm: vmOf(), want: [] },
  { name: "names", vm: vmOf({ name: "small" }, { name: "linux", kind: "x" }), want: [] },
  {
    name: "neither name nor volume",
    vm: vmOf({}, { name: "" }),
    want: [
      "FieldValueNotFound spec.instancetype: Either Name or InferFromVolume should be provided within the instancetype matcher",
      "FieldValueNotFound spec.preference: Either Name or InferFromVolume should be provided within the preference matcher",
    ],
  },
  {
    name: "a volume",
    vm: vmOf({ inferFromVolume: "root" }, { inferFromVolume: "root" }),
    want: [],
  },
  {
    name: "a volume with name and kind, which are not allowed beside it",
    vm: vmOf(undefined, { inferFromVolume: "root", name: "linux", kind: "k" }),
    want: [
      "FieldValueNotFound spec.preference.name: Name should not be provided when InferFromVolume is used within the preference matcher",
      "FieldValueNotFound spec.preference.kind: Kind should not be provided when InferFromVolume is used within the preference matcher",
    ],
  },
  {
    name: "an unknown policy",
    vm: vmOf({ name: "a", inferFromVolumeFailurePolicy: "Sometimes" }),
    want: [
      "FieldValueInvalid spec.instancetype.inferFromVolumeFailurePolicy: Invalid value 'Sometimes' for InferFromVolumeFailurePolicy",
    ],
  },
  {
    name: "another name with the previous name's revision",
    vm: vmOf({ name: "large", revisionName: "r" }),
    old: vmOf({ name: "small", revisionName: "r" }),
    want: [
      "FieldValueInvalid spec.instancetype.revisionName: the Matcher Name has been updated without updating the RevisionName",
    ],
  },
  {
    name: "another name with another revision",
    vm: vmOf({ name: "large", revisionName: "s" }),
    old: vmOf({ name: "small", revisionName: "r" }),
    want: [],
  },
  {
    name: "the same name with a revision",
    vm: vmOf({ name: "small", revisionName: "r" }),
    old: vmOf({ name: "small", revisionName: "r" }),
    want: [],
  },
])("$name", ({ vm, old, want }) => {
  const causes = validateMatchers(vm, old);
  expect(causes.map(({ reason, field, message }) => `${reason} ${field}: ${message}`)).toEqual(
    want,
  );
});
