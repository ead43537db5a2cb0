// SPDX-License-Identifier: Apache-2.0
// Who may change the specification of a VMI that is stored.
import { names, type Cause, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";
import { isEqual } from "../../equal.ts";
import { nicsOf, withNics } from "../../spec/nics.ts";
import { ownerVmOf } from "../vm/vm.ts";

/** A change of a VMI, and who makes it. */
export interface VmiChange {
  readonly old: VirtualMachineInstance;
  readonly vmi: VirtualMachineInstance;
  /** As the API server names the user. */
  readonly user: string;
}

/** Why a change is refused: 403 is about who asks, 422 about what is asked. */
export interface VmiChangeRefusal {
  readonly code: 403 | 422;
  readonly message: string;
  readonly causes: readonly Cause[];
}

/** The one writer of the networks of a VMI that a VM owns. */
const OWNED_WRITER = `${names.SERVICE_ACCOUNT_PREFIX}virt-controller`;

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The command that makes the same change where it belongs. */
function equivalentCommand(vmName: string, { metadata, spec }: VirtualMachineInstance): string {
  const { networks, ifaces } = nicsOf(spec);
  const template = { spec: { networks, domain: { devices: { interfaces: ifaces } } } };
  const patch = JSON.stringify({ spec: { template } });
  return `kubectl patch vm ${vmName} -n ${metadata.namespace ?? ""} --type merge -p ${shellQuote(patch)}`;
}

function refuseOwned(vmName: string, vmi: VirtualMachineInstance): VmiChangeRefusal {
  const command = equivalentCommand(vmName, vmi);
  const message = `the VM ${vmName} decides the networks and interfaces of this VMI; change the VM instead: ${command}`;
  return { code: 403, message, causes: [] };
}

const MESSAGE = "update of VMI object is restricted";
/** Other fields are those with which the guest was started. Source: KubeVirt vmi-update-admitter.go. */
const RESTRICTED: VmiChangeRefusal = {
  code: 422,
  message: MESSAGE,
  causes: [{ reason: "FieldValueNotSupported", field: "spec", message: MESSAGE }],
};

function withoutNics(spec: VmiSpec): VmiSpec {
  return withNics(spec, [], []);
}

/**
 * Why a change may not be made, or undefined. The NICs of a VMI that a VM owns are the VM's, and virt-controller writes
 * them; all else stays as it was at the start, but for the services.
 */
export function refuseVmiChange({ old, vmi, user }: VmiChange): VmiChangeRefusal | undefined {
  if (user === OWNED_WRITER) return undefined;
  const owner = ownerVmOf(old)?.name;
  if (owner !== undefined && !isEqual(nicsOf(vmi.spec), nicsOf(old.spec))) {
    return refuseOwned(owner, vmi);
  }
  const isService = user.startsWith(names.SERVICE_ACCOUNT_PREFIX);
  const isSame = isEqual(withoutNics(vmi.spec), withoutNics(old.spec));
  return isService || isSame ? undefined : RESTRICTED;
}
