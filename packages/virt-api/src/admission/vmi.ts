// SPDX-License-Identifier: Apache-2.0
// Whether a VMI may be stored, and who may change it.
import {
  names,
  validatePluggedBindings,
  validateVmiNetworkChange,
  validateVmiChange,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { ifacesOf, isEqual, networksOf, withNics } from "@patchbay/core";
import { ownerVmOf } from "../changes/targets.ts";
import type { Deps } from "../deps.ts";
import { capacityWarnings } from "./capacity.ts";
import { ALLOWED, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";
import { twinCauses } from "./twins.ts";
import { unactedWarnings } from "./unacted.ts";
import { missingNetworkWarnings } from "./missing-networks.ts";

/** The one writer of the networks of a VMI that a VM owns. */
const OWNED_WRITER = `${names.SERVICE_ACCOUNT_PREFIX}virt-controller`;

/** A VMI and what was stored before. */
interface Vmis {
  readonly vmi: VirtualMachineInstance;
  readonly old: VirtualMachineInstance | undefined;
}

function sameNics(one: VmiSpec, other: VmiSpec): boolean {
  return isEqual(networksOf(one), networksOf(other)) && isEqual(ifacesOf(one), ifacesOf(other));
}

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The command that makes the same change where it belongs. */
function equivalentCommand(vmName: string, namespace: string, spec: VmiSpec): string {
  const template = {
    spec: {
      networks: networksOf(spec),
      domain: { devices: { interfaces: ifacesOf(spec) } },
    },
  };
  const patch = JSON.stringify({ spec: { template } });
  return `kubectl patch vm ${vmName} -n ${namespace} --type merge -p ${shellQuote(patch)}`;
}

function refuseOwned(vmName: string, request: AdmissionRequest, spec: VmiSpec): Verdict {
  const command = equivalentCommand(vmName, request.namespace, spec);
  return {
    allowed: false,
    code: 403,
    message: `networks and interfaces of this VMI are those of its VM ${vmName}; change the VM instead: ${command}`,
    causes: [],
  };
}

/** Other fields are those with which the guest was started. Source: KubeVirt vmi-update-admitter.go. */
function refuseRestricted(): Verdict {
  const message = "update of VMI object is restricted";
  const cause = { reason: "FieldValueNotSupported", field: "spec", message } as const;
  return { allowed: false, code: 422, message, causes: [cause] };
}

function restrictionOf(request: AdmissionRequest, { vmi, old }: Vmis): Verdict | undefined {
  if (old === undefined || request.user.name === OWNED_WRITER) return undefined;
  const owner = ownerVmOf(old)?.name;
  if (owner !== undefined && !sameNics(vmi.spec, old.spec)) {
    return refuseOwned(owner, request, vmi.spec);
  }
  const rest = withNics(vmi.spec, networksOf(old.spec), ifacesOf(old.spec));
  const before = withNics(old.spec, networksOf(old.spec), ifacesOf(old.spec));
  const isOwn = request.user.name.startsWith(names.SERVICE_ACCOUNT_PREFIX);
  return isOwn || isEqual(rest, before) ? undefined : refuseRestricted();
}

/** Judges a VMI; what was stored before and is not changed is not judged again. */
export async function validateVmi(
  deps: Deps,
  request: AdmissionRequest,
  vmis: Vmis,
): Promise<Verdict> {
  const { vmi, old } = vmis;
  if (vmi.metadata.deletionTimestamp !== undefined) return ALLOWED;
  const restriction = restrictionOf(request, vmis);
  if (restriction !== undefined) return restriction;
  const specs = { spec: vmi.spec, old: old?.spec };
  const { namespace } = request;
  const isOwned = ownerVmOf(vmi) !== undefined;
  const causes = [
    ...validateVmiChange(old?.spec, vmi.spec),
    ...(old === undefined
      ? []
      : [
          ...validateVmiNetworkChange(old.spec, vmi.spec),
          ...validatePluggedBindings(old.spec, vmi.spec, "spec"),
        ]),
    // The MACs of a VM were judged when the VM was stored.
    ...(isOwned
      ? []
      : twinCauses(deps, { ...specs, namespace, name: vmi.metadata.name, base: "spec" })),
  ];
  if (causes.length > 0 || isOwned) return toVerdict(causes, []);
  return toVerdict(
    [],
    [
      ...unactedWarnings({ kind: "vmi", vmi }, old && { kind: "vmi", vmi: old }),
      ...(await missingNetworkWarnings(deps, specs, namespace)),
      ...capacityWarnings(vmi, vmi.spec),
    ],
  );
}
