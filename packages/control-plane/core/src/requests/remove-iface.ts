// SPDX-License-Identifier: Apache-2.0
import { isAbsent, isDefaultNetwork, validateVmiSpec, type Iface } from "@patchbay/api";
import { findByName, ifacesOf, networksOf, withNics } from "../nics/nics.ts";
import type { RemoveIfaceRequest } from "./nic-body.ts";
import { refuse, type NicPlan } from "./refusal.ts";
import { findLiveVmi, specOf, targetProblem, patchTarget, type NicTarget } from "./target.ts";

interface RemoveIfaceFacts {
  readonly target: NicTarget;
  readonly request: RemoveIfaceRequest;
}

function isUnplugging({ target, request }: RemoveIfaceFacts): boolean {
  const vmi = target.kind === "vm" ? findLiveVmi(target) : undefined;
  return vmi !== undefined && findByName(ifacesOf(vmi.spec), request.name) !== undefined;
}

function planUnknown(facts: RemoveIfaceFacts): NicPlan {
  const { name } = facts.request;
  if (isUnplugging(facts)) {
    return { kind: "unchanged", message: `interface '${name}' is already being unplugged` };
  }
  const message = `interface '${name}' not found`;
  return refuse(422, [{ reason: "FieldValueNotFound", field: "name", message }]);
}

/** A running guest has the NIC, so the entry is marked `absent` until everything is detached. */
function planUnplug({ target, request }: RemoveIfaceFacts, iface: Iface): NicPlan {
  const spec = specOf(target);
  const index = ifacesOf(spec).indexOf(iface);
  const ifaces = ifacesOf(spec).with(index, { ...iface, state: "absent" });
  const field = `spec.domain.devices.interfaces[${String(index)}].state`;
  const causes = validateVmiSpec(withNics(spec, networksOf(spec), ifaces), "spec")
    .filter((cause) => cause.field === field)
    .map((cause) => ({ ...cause, field: "name" }));
  if (causes.length > 0) return refuse(422, causes);
  return {
    kind: "patch",
    operations: patchTarget(target, { networks: networksOf(spec), ifaces }),
    effect: "live",
    message: `interface '${request.name}' will be unplugged from the running guest`,
  };
}

function planDrop({ target, request }: RemoveIfaceFacts): NicPlan {
  const spec = specOf(target);
  const networks = networksOf(spec).filter(({ name }) => name !== request.name);
  const ifaces = ifacesOf(spec).filter(({ name }) => name !== request.name);
  return {
    kind: "patch",
    operations: patchTarget(target, { networks, ifaces }),
    effect: "start",
    message: `interface '${request.name}' is removed when the VM starts`,
  };
}

/** Plans an unplug. Repeating a request changes nothing. The default network cannot be removed. */
export function planRemoveIface(facts: RemoveIfaceFacts): NicPlan {
  const { target, request } = facts;
  const problem = targetProblem(target);
  if (problem !== undefined) return { kind: "refused", refusal: problem };
  const spec = specOf(target);
  const iface = findByName(ifacesOf(spec), request.name);
  if (iface === undefined) return planUnknown(facts);
  const network = findByName(networksOf(spec), request.name);
  if (network !== undefined && isDefaultNetwork(network)) {
    const message = `interface '${request.name}' is on the default network of the pod and cannot be removed`;
    return refuse(422, [{ reason: "FieldValueInvalid", field: "name", message }]);
  }
  if (findLiveVmi(target) === undefined) return planDrop(facts);
  return isAbsent(iface)
    ? { kind: "unchanged", message: `interface '${request.name}' is already being unplugged` }
    : planUnplug(facts, iface);
}
