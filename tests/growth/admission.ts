// SPDX-License-Identifier: Apache-2.0
// Admission of VMs as a whole.
import { networkConfigOf, type VmiSpec, VIRTUAL_MACHINES } from "@patchbay/api";
import {
  effectiveVmiSpec,
  findMalformedQuantities,
  findMistypedFields,
  listUnsupportedVmFields,
  validateVmChange,
  validateVmiNetworkChange,
} from "@patchbay/api/validate";
import { createFakeStore } from "../../packages/adapters/kube/src/testing/fakes/store.ts";
import { listFieldWarnings } from "../../packages/control-plane/virt-api/src/admission/warnings.ts";
import { mutate } from "../../packages/control-plane/virt-api/src/admission/mutate.ts";
import { validate } from "../../packages/control-plane/virt-api/src/admission/validate.ts";
import { admissionRequest } from "../../packages/control-plane/virt-api/src/testing/admission.ts";
import { depsOn } from "../../packages/control-plane/virt-api/src/testing/deps.ts";
import { aVm } from "./rules.ts";
import { times, type Subject } from "./subject.ts";

/** Maximum number of networks and interfaces of a VM. */
const NICS_MAX = 64;
const CONFIG = networkConfigOf(undefined);

function nameOf(index: number): string {
  return `n${String(index)}`;
}

const SUBJECTS: readonly Subject[] = [
  {
    name: "validation of a changed VM",
    limit: NICS_MAX,
    prepare: (size) => {
      const [before, after] = [aVm(size, nameOf), aVm(size, (index) => `m${String(index)}`)];
      return () => validateVmChange(before.spec, after.spec);
    },
  },
  {
    name: "validation of a VMI's changed networks",
    limit: NICS_MAX,
    prepare: (size) => {
      const spec = (prefix: string): VmiSpec => ({
        domain: {},
        networks: times(size, (index) => ({ name: `${prefix}${String(index)}`, pod: {} })),
      });
      return () => validateVmiNetworkChange(spec("a"), spec("b"));
    },
  },
  ...[
    { name: "unsupported fields", list: listUnsupportedVmFields },
    { name: "mistyped fields", list: findMistypedFields },
  ].map(({ name, list }) => ({
    name,
    limit: 512,
    prepare: (size: number) => {
      const { spec } = aVm(size, nameOf);
      return () => list(spec);
    },
  })),
  {
    name: "harmless fields and quantities",
    limit: 512,
    prepare: (size) => {
      const { spec } = aVm(size, nameOf).spec.template;
      return () => [effectiveVmiSpec(spec), findMalformedQuantities(spec, "spec")];
    },
  },
  {
    name: "warnings about fields",
    limit: NICS_MAX,
    prepare: (size) => {
      const vm = aVm(size, nameOf);
      const subject = { kind: "vm", vm } as const;
      const old = { kind: "vm", vm: aVm(size, (index) => `m${String(index)}`) } as const;
      return () => listFieldWarnings(subject, old, CONFIG);
    },
  },
  {
    name: "mutation of a VM",
    limit: NICS_MAX,
    prepare: (size) => {
      const deps = depsOn(createFakeStore());
      const vm = aVm(size, nameOf);
      return () => mutate(deps, admissionRequest(vm));
    },
  },
  {
    name: "admission of a changed VM",
    limit: NICS_MAX,
    prepare: (size) => {
      const store = createFakeStore();
      const old = aVm(size, nameOf);
      store.put(VIRTUAL_MACHINES, old);
      const vm = aVm(size, (index) => `m${String(index)}`);
      return () => validate(depsOn(store), admissionRequest(vm, old));
    },
  },
];

export const ADMISSION: readonly Subject[] = SUBJECTS.map((subject) => ({
  ...subject,
  name: `admission: ${subject.name}`,
}));
