// SPDX-License-Identifier: Apache-2.0
// After all tests: each component used each right of its role and no other.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseManifests, readManifests } from "@patchbay/manifests";
import { listRights } from "@patchbay/manifests/testing";
import { createFiles } from "@patchbay/os";
import { judgeRights, type RightsFinding } from "@patchbay/support";

/** Requested at admission, not by a client: tests/strict covers it. */
const OWNERS = "only strict servers ask for it, of whoever sets blockOwnerDeletion";

const CDI = "only a VM with dataVolumeTemplates makes it ask";

const FILLS = "only a DataVolume makes it ask: tests/contract/node-runtime/claims shows it";

/** The object kinds of such a volume. */
const INFERRED = "only a VM with inferFromVolume makes it ask: tests/contract/manifests shows it";

/** Rights that no test needs, with the reason for granting them. */
const UNTOLD: Readonly<Record<string, string>> = {
  "system:serviceaccount:patchbay:virt-controller update virtualmachines.kubevirt.io/finalizers":
    OWNERS,
  "system:serviceaccount:patchbay:virt-controller update virtualmachineinstances.kubevirt.io/finalizers":
    OWNERS,
  "system:serviceaccount:patchbay:net-agent get nodes":
    "tells whether a node that said something of a network is gone; a machine has one node",
  "system:serviceaccount:patchbay:binder delete pods":
    "only a taint of the node with NoExecute ends pods: tests/contract/node-runtime shows it",
  "system:serviceaccount:patchbay:virt-handler update relaycertificate.subresources.kubevirt.io":
    "only where virt-api signs: the machine's supervisor keeps the certificate in files",
  "system:serviceaccount:patchbay:virt-api get pods":
    "tells the node of a virt-handler with a token; those of the machine have certificates, which name it",
  "system:serviceaccount:patchbay:virt-api list pods":
    "tells where the virt-handler of a node answers; a machine has one, whose address it is told",
};

/** Objects that VMs may reference. */
const PARTS = [
  "virtualmachineinstancetypes",
  "virtualmachineclusterinstancetypes",
  "virtualmachinepreferences",
  "virtualmachineclusterpreferences",
];

/** A machine's VMs need not reference each kind, and watchers get only unknown ones. */
function gettersOfParts(): Readonly<Record<string, string>> {
  const why =
    "only a VM that names one makes it ask, and virt-controller only before its watch tells of it";
  const rights = ["virt-api", "virt-controller"].flatMap((account) =>
    [...PARTS.map((name) => `${name}.instancetype.kubevirt.io`), "controllerrevisions.apps"].map(
      (resource) => `system:serviceaccount:patchbay:${account} get ${resource}`,
    ),
  );
  return Object.fromEntries(rights.map((right) => [right, why]));
}

/** Only two-node tests migrate guests. */
const MIGRATIONS =
  "only a guest that leaves its node needs it: packages/control-plane/virt-controller/src/migration.test.ts";

/** Rights for IPAMClaims. Only the long form has a network that assigns addresses to claims. */
function claimRights(): Readonly<Record<string, string>> {
  const why =
    "only a network with persistent addresses needs it: tests/e2e/network/persistent-addresses.long.test.ts";
  const account = "system:serviceaccount:patchbay:virt-controller";
  const rights = ["get", "create", "patch", "delete"].map(
    (verb) => `${account} ${verb} ipamclaims.k8s.cni.cncf.io`,
  );
  return Object.fromEntries(rights.map((right) => [right, why]));
}

const CLAIMS =
  "only a pod with resource claims makes it ask: tests/e2e/plug/claimed-devices.long.test.ts";

/** Rights that a run may or may not use. */
const BY_CHANCE: Readonly<Record<string, string>> = {
  ...gettersOfParts(),
  ...claimRights(),
  "system:serviceaccount:patchbay:virt-controller get virtualmachines.kubevirt.io":
    "a VM is read only where its template has more than 4,096 characters of annotations",
  "system:serviceaccount:patchbay:binder patch events":
    "why a claim waits is counted only where it is told again, seconds later",
  "system:serviceaccount:patchbay:service-net patch events":
    "why a Service is not forwarded is counted only where it is told again, minutes later",
  "system:serviceaccount:patchbay:binder create persistentvolumeclaims": FILLS,
  "system:serviceaccount:patchbay:binder create pods": FILLS,
  "system:serviceaccount:patchbay:binder patch datavolumes.cdi.kubevirt.io/status": FILLS,
  "system:serviceaccount:patchbay:virt-controller get datavolumes.cdi.kubevirt.io": CDI,
  "system:serviceaccount:patchbay:virt-controller create datavolumes.cdi.kubevirt.io": CDI,
  "system:serviceaccount:patchbay:virt-controller get datasources.cdi.kubevirt.io": CDI,
  "system:serviceaccount:patchbay:virt-controller create subjectaccessreviews.authorization.k8s.io":
    CDI,
  "system:serviceaccount:patchbay:virt-api get datavolumes.cdi.kubevirt.io": INFERRED,
  "system:serviceaccount:patchbay:virt-api get datasources.cdi.kubevirt.io": INFERRED,
  "system:serviceaccount:patchbay:virt-api get persistentvolumeclaims": INFERRED,
  "system:serviceaccount:patchbay:binder list resourceclaims.resource.k8s.io": CLAIMS,
  "system:serviceaccount:patchbay:binder watch resourceclaims.resource.k8s.io": CLAIMS,
  "system:serviceaccount:patchbay:binder create resourceclaims.resource.k8s.io": CLAIMS,
  "system:serviceaccount:patchbay:binder patch resourceclaims.resource.k8s.io/status": CLAIMS,
  "system:serviceaccount:patchbay:binder list resourceclaimtemplates.resource.k8s.io": CLAIMS,
  "system:serviceaccount:patchbay:binder watch resourceclaimtemplates.resource.k8s.io": CLAIMS,
  "system:serviceaccount:patchbay:virt-controller list resourceclaims.resource.k8s.io": CLAIMS,
  "system:serviceaccount:patchbay:virt-controller watch resourceclaims.resource.k8s.io": CLAIMS,
  "system:serviceaccount:patchbay:virt-controller get resourceclaimtemplates.resource.k8s.io":
    CLAIMS,
  "system:serviceaccount:patchbay:virt-controller get namespaces":
    "only a MigrationPolicy with a namespaceSelector makes it ask",
  "system:serviceaccount:patchbay:virt-api list virtualmachineinstancemigrations.kubevirt.io":
    MIGRATIONS,
  "system:serviceaccount:patchbay:virt-controller patch virtualmachineinstancemigrations.kubevirt.io":
    MIGRATIONS,
  "system:serviceaccount:patchbay:virt-controller delete virtualmachineinstancemigrations.kubevirt.io":
    MIGRATIONS,
  "system:serviceaccount:patchbay:virt-controller patch virtualmachineinstancemigrations.kubevirt.io/status":
    MIGRATIONS,
  "system:serviceaccount:patchbay:virt-controller create persistentvolumeclaims":
    "only a VM whose firmware or TPM keeps its state has such a claim",
  "system:serviceaccount:patchbay:net-agent patch network-attachment-definitions.k8s.cni.cncf.io/status":
    "only what keeps a network from working is told there",
  "system:serviceaccount:patchbay:net-agent get pods":
    "before it tears anything down it asks for a pod that its cache does not have; mostly the pod's end has come first",
};

/** Rights used only by tests that reboot VMs: a host disk, a restart. */
const OF_BOOTS: readonly string[] = [
  "system:node:vm list kubevirts.kubevirt.io",
  "system:serviceaccount:patchbay:virt-api delete virtualmachineinstances.kubevirt.io",
];

/** Tests that share a machine. */
export type Stories = "e2e" | "boots";

/** The rights that these tests had to use and did not; other tests use the others. */
function unusedIn(stories: Stories, unused: readonly string[]): readonly string[] {
  if (stories === "boots") return OF_BOOTS.filter((right) => unused.includes(right));
  const untold = Object.keys(UNTOLD);
  const unsure = new Set([...untold, ...Object.keys(BY_CHANCE), ...OF_BOOTS]);
  return [
    ...unused.filter((right) => !unsure.has(right)),
    ...untold.filter((right) => !unused.includes(right)).map((right) => `told: ${right}`),
  ];
}

/** Uses of the components' roles in the log of the machine's API server; `nodeName` as `patchbay up` chose it. */
export async function judgeMachine(dataDir: string, stories: Stories): Promise<RightsFinding> {
  const text = readFileSync(join(dataDir, "standalone.json"), "utf8");
  const { nodeName } = JSON.parse(text) as { readonly nodeName: string };
  const objects = parseManifests(await readManifests(createFiles(), "standalone"), nodeName);
  const log = readFileSync(join(dataDir, "logs", "apiserver.log"), "utf8");
  // User roles may contain rights that no test uses.
  const granted = listRights(objects).filter(({ user }) => user !== "system:authenticated");
  const found = judgeRights(granted, log);
  return { ...found, unused: unusedIn(stories, found.unused) };
}
