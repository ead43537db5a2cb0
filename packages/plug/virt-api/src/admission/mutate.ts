// SPDX-License-Identifier: Apache-2.0
// POST /mutate: what is filled in before an object is stored.
import {
  VIRTUAL_MACHINE_INSTANCES,
  withDefaultBinding,
  type Iface,
  type VmiSpec,
  type JsonPatchOperation,
} from "@patchbay/api";
import { ifacesOf, isOwnedBy, messageOf, networksOf, withMacs, withNics } from "@patchbay/core";
import type { Deps } from "../deps.ts";
import { basePathOf, fillAutoNic, inferredSubject, matcherPatch } from "./defaults.ts";
import type { AdmissionRequest, Verdict } from "./review.ts";
import { ALLOWED } from "./review.ts";
import { findSubject, isUnchanged, metadataOf, vmiSpecOf, type Subject } from "./subject.ts";

/** An answer that comes later than this would hold up the write; the MAC is then a new one. */
const LOOKUP_TIMEOUT_MS = 1000;

function lacksMac(iface: Iface): boolean {
  return (iface.macAddress ?? "") === "";
}

/** The VMI of a VM: an iface that was taken out of the VM and has not left the guest keeps its MAC. */
async function findRunningSpec(
  deps: Deps,
  subject: Subject,
  namespace: string,
): Promise<VmiSpec | undefined> {
  const name = metadataOf(subject).name;
  if (subject.kind === "vmi" || name === "") return undefined;
  try {
    const key = { namespace, name };
    const options = { timeoutMs: LOOKUP_TIMEOUT_MS };
    const vmi = await deps.known.find(VIRTUAL_MACHINE_INSTANCES, key, options);
    return vmi !== undefined && isOwnedBy(vmi, subject.vm) ? vmi.spec : undefined;
  } catch (error) {
    deps.log.warn("cannot look for an earlier MAC", {
      vm: `${namespace}/${name}`,
      err: messageOf(error),
    });
    return undefined;
  }
}

async function earlierSpecs(
  deps: Deps,
  request: AdmissionRequest,
  subject: Subject,
): Promise<readonly VmiSpec[]> {
  const old = findSubject(request.kind, request.oldObject);
  if (old === undefined) return [];
  const running = await findRunningSpec(deps, subject, request.namespace);
  return [vmiSpecOf(old), ...(running === undefined ? [] : [running])];
}

/** The fields that `after` has and `before` has not, or has otherwise. */
function addedFields(before: Iface, after: Iface, path: string): readonly JsonPatchOperation[] {
  return (["bridge", "macAddress"] as const)
    .filter((field) => before[field] !== after[field])
    .map((field) => ({ op: "add", path: `${path}/${field}`, value: after[field] }));
}

/** Gives each iface on a secondary network a binding and a MAC. */
async function nicsPatchOf(
  deps: Deps,
  request: AdmissionRequest,
  subject: Subject,
): Promise<readonly JsonPatchOperation[]> {
  const spec = vmiSpecOf(subject);
  const before = ifacesOf(spec);
  const networks = networksOf(spec);
  const bound = before.map((iface) => withDefaultBinding(iface, networks));
  const earlier = before.some(lacksMac) ? await earlierSpecs(deps, request, subject) : [];
  const after = withMacs(withNics(spec, networks, bound), {
    namespace: request.namespace,
    earlier,
    randomBytes: deps.randomBytes,
  });
  const base = basePathOf(subject);
  return before.flatMap((iface, index) =>
    addedFields(iface, after[index] ?? iface, `${base}/domain/devices/interfaces/${String(index)}`),
  );
}

/** Fills in what was not said. */
export async function mutate(deps: Deps, request: AdmissionRequest): Promise<Verdict> {
  const subject = findSubject(request.kind, request.object);
  if (subject === undefined || metadataOf(subject).deletionTimestamp !== undefined) return ALLOWED;
  const old = findSubject(request.kind, request.oldObject);
  if (isUnchanged(subject, old)) return ALLOWED;
  const inferred = await inferredSubject(deps, request, { subject, old });
  if (typeof inferred === "string")
    return { allowed: false, code: 400, message: inferred, causes: [] };
  const auto = await fillAutoNic(deps, request, { subject: inferred, old });
  return {
    allowed: true,
    ...(auto.warnings.length === 0 ? {} : { warnings: auto.warnings }),
    patch: [
      ...matcherPatch(subject, inferred),
      ...auto.patch,
      ...(await nicsPatchOf(deps, request, subject)),
    ],
  };
}
