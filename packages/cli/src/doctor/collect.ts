// SPDX-License-Identifier: Apache-2.0
// Collects the facts about an installation. Creates VMs only as dry runs. On a standalone machine, starts and deletes a pod.
import { dirname, join, resolve } from "node:path";
import { loadKubeConfig, parseTime } from "@patchbay/kube";
import type { Files, ListOptions, Store } from "@patchbay/core/interfaces";
import { X509Certificate } from "node:crypto";
import {
  API_SERVICES,
  apiVersionOf,
  customResourceDefinitions,
  DAEMON_SETS,
  DEPLOYMENTS,
  EVENTS,
  KUBEVIRTS,
  LEASES,
  MUTATING_WEBHOOKS,
  names,
  IPAM_CLAIMS,
  MULTI_NETWORK_POLICIES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  isDataplaneEnabled,
  PODS,
  usesEmulation,
  VALIDATING_WEBHOOKS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isAppError, messageOf } from "@patchbay/base";
import { createFiles, readSelinux } from "@patchbay/os";
import { describeMachine } from "@patchbay/supervisor";
import type { Context } from "../command.ts";
import { chooseKubeConfig, type Session } from "../session.ts";
import type { CertificateEnd, Facts, ServedApi, Trial, WantedApi } from "./facts.ts";
import type { Observed } from "./finding.ts";
import { tryPod } from "./pod-trial.ts";

async function readServer(kubeconfig: string): Promise<string | undefined> {
  try {
    return (await loadKubeConfig({ kubeconfig })).server;
  } catch {
    return undefined;
  }
}

interface MachineHints {
  readonly kubeconfig: string;
  readonly server: string;
  readonly dataDir: string;
}

/** Finds the directory of the standalone machine whose API server is `server`. Tries the kubeconfig's directory first, then `dataDir`. */
export async function findMachineDir(
  files: Pick<Files, "exists">,
  { kubeconfig, server, dataDir }: MachineHints,
): Promise<string | undefined> {
  for (const directory of [dirname(resolve(kubeconfig)), resolve(dataDir)]) {
    const isMachine = await files.exists(join(directory, "run"));
    if (isMachine && (await readServer(join(directory, "kubeconfig"))) === server) return directory;
  }
  return undefined;
}

const PATCHBAY_OBJECTS = { labelSelector: `${names.PART_OF_LABEL}=${names.PRODUCT}` };
const LAUNCHERS = { labelSelector: `${names.KUBEVIRT_LABEL}=${names.LAUNCHER_LABEL_VALUE}` };
const NETWORK_EVENTS = {
  fieldSelector: `involvedObject.kind=${NETWORK_ATTACHMENT_DEFINITIONS.kind}`,
};
const NODE_LEASES = "kube-node-lease";
const SUBRESOURCES: WantedApi = {
  groupVersion: `${names.SUBRESOURCES_GROUP}/v1`,
  resources: ["virtualmachines/addinterface", "virtualmachines/removeinterface"],
};
const SELINUX_DIR = "/sys/fs/selinux";
const STANDALONE_SUFFIX = "+patchbay";

export async function observe<T>(request: Promise<T>): Promise<Observed<T>> {
  try {
    return { value: await request };
  } catch (error) {
    return { failure: messageOf(error) };
  }
}

interface StoreSession {
  readonly client: { readonly store: Pick<Store, "list"> };
}

export function list<T extends KubeObject>(
  { client }: StoreSession,
  type: ResourceType<T>,
  options: ListOptions = {},
): Promise<Observed<readonly T[]>> {
  return observe(client.store.list(type, options).then(({ items }) => items));
}

const ROLE_BINDINGS: ResourceType<KubeObject & { readonly roleRef: { readonly name: string } }> = {
  group: "rbac.authorization.k8s.io",
  version: "v1",
  resource: "rolebindings",
  kind: "RoleBinding",
  namespaced: true,
};
const RESOURCE_QUOTAS: ResourceType<KubeObject> = {
  group: "",
  version: "v1",
  resource: "resourcequotas",
  kind: "ResourceQuota",
  namespaced: true,
};
const TENANT_ROLES: readonly string[] = ["admin", "edit"];

export async function listUnlimitedTenants(
  session: StoreSession,
): Promise<Facts["unlimitedTenants"]> {
  const [bindings, quotas] = await Promise.all([
    list(session, ROLE_BINDINGS),
    list(session, RESOURCE_QUOTAS),
  ]);
  if ("failure" in bindings) return bindings;
  if ("failure" in quotas) return quotas;
  const tenants = bindings.value.filter(({ roleRef }) => TENANT_ROLES.includes(roleRef.name));
  const limited = new Set(quotas.value.map(({ metadata }) => metadata.namespace));
  const namespaces = new Set(tenants.map(({ metadata }) => metadata.namespace ?? ""));
  return { value: [...namespaces].filter((namespace) => !limited.has(namespace)).sort() };
}

async function readJson({ client }: Session, path: string): Promise<JsonObject> {
  const { text } = await client.requestRaw({ method: "GET", path });
  const value = parseJson(text);
  return isJsonObject(value) ? value : {};
}

/** Kinds that a cluster serves only if it supports persistent addresses or policies on secondary networks. */
const OPTIONAL_KINDS: readonly string[] = [IPAM_CLAIMS.kind, MULTI_NETWORK_POLICIES.kind];

function wantedApis(): readonly WantedApi[] {
  const kinds = customResourceDefinitions()
    .filter(({ spec }) => !OPTIONAL_KINDS.includes(spec.names.kind))
    .flatMap(({ spec }) =>
      spec.versions.map(({ name }) => ({
        groupVersion: `${spec.group}/${name}`,
        resource: spec.names.plural,
      })),
    );
  const byGroup = Map.groupBy(kinds, ({ groupVersion }) => groupVersion);
  const ofKinds = [...byGroup].map(([groupVersion, all]) => ({
    groupVersion,
    resources: all.map(({ resource }) => resource),
  }));
  return [...ofKinds, SUBRESOURCES];
}

async function readApi(session: Session, wanted: WantedApi): Promise<ServedApi> {
  const discovered = readJson(session, `/apis/${wanted.groupVersion}`).then(({ resources }) =>
    Array.isArray(resources) ? resources.filter(isJsonObject).map(({ name }) => String(name)) : [],
  );
  return { ...wanted, served: await observe(discovered) };
}

function trialVm(session: Session, domain: object): VirtualMachine {
  return {
    apiVersion: apiVersionOf(VIRTUAL_MACHINES),
    kind: VIRTUAL_MACHINES.kind,
    metadata: { namespace: session.namespace, name: "patchbay-doctor" },
    spec: {
      runStrategy: "Halted",
      template: { spec: { domain: { memory: { guest: "64Mi" }, ...domain } } },
    },
  };
}

/** Sends dry runs of two VMs: one without NICs, to which admission must add defaults, and one with an invalid NIC, which it must reject. */
async function tryAdmission(session: Session): Promise<Trial> {
  const { client, clock } = session;
  const { store } = client;
  const sentMs = clock.now();
  const { metadata, spec } = await store.create(
    VIRTUAL_MACHINES,
    trialVm(session, { devices: {} }),
    {
      dryRun: true,
    },
  );
  const receivedMs = clock.now();
  const devices = { interfaces: [{ name: "of-no-network", bridge: {} }] };
  const isRefused = await store
    .create(VIRTUAL_MACHINES, trialVm(session, { devices }), { dryRun: true })
    .then(
      () => false,
      (error: unknown) => {
        if (isAppError(error, "KUBE_REFUSED")) return true;
        throw error;
      },
    );
  return {
    serverMs: parseTime(metadata.creationTimestamp ?? ""),
    sentMs,
    receivedMs,
    hasDefaults: spec.template.spec.networks?.some(({ pod }) => pod !== undefined) === true,
    isRefused,
  };
}

function readCertificateEnds(subject: string, pem: string | undefined): readonly CertificateEnd[] {
  const certificates =
    pem?.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return certificates.map((certificatePem) => ({
    subject,
    endsMs: new X509Certificate(certificatePem).validToDate.getTime(),
  }));
}

function fromBase64(text: string | undefined): string {
  return Buffer.from(text ?? "", "base64").toString("utf8");
}

async function readCertificates(
  { config }: Session,
  { apiServices, webhooks }: Pick<Facts, "apiServices" | "webhooks">,
): Promise<readonly CertificateEnd[]> {
  const { ca, cert } = await config.readCredentials();
  const authorities = [
    ...("value" in apiServices
      ? apiServices.value.map(({ spec }) => ({ subject: "authority of virt-api", ...spec }))
      : []),
    ...("value" in webhooks
      ? webhooks.value.flatMap(({ webhooks: all = [] }) =>
          all.map(({ clientConfig }) => ({
            subject: "authority of virt-api",
            ...clientConfig,
          })),
        )
      : []),
  ].flatMap(({ subject, caBundle }) => readCertificateEnds(subject, fromBase64(caBundle)));
  const all = [
    ...readCertificateEnds("authority of the API server", ca),
    ...readCertificateEnds("yours, of the kubeconfig", cert),
    ...authorities,
  ];
  // Duplicates are removed, because webhooks and APIServices contain the same certificate authority.
  return [...new Map(all.map((one) => [`${one.subject} ${String(one.endsMs)}`, one])).values()];
}

async function readWebhooks(session: Session): Promise<Facts["webhooks"]> {
  const [mutating, validating] = await Promise.all([
    list(session, MUTATING_WEBHOOKS, PATCHBAY_OBJECTS),
    list(session, VALIDATING_WEBHOOKS, PATCHBAY_OBJECTS),
  ]);
  if ("failure" in mutating) return mutating;
  return "failure" in validating ? validating : { value: [...mutating.value, ...validating.value] };
}

async function readProcesses(
  { serverVersion, nodes }: Pick<Facts, "serverVersion" | "nodes">,
  context: Context,
  session: Session,
): Promise<Pick<Facts, "processes" | "selinux" | "podTrial">> {
  const isMachine = "value" in serverVersion && serverVersion.value.endsWith(STANDALONE_SUFFIX);
  if (!isMachine) return {};
  const hasNode = "value" in nodes && nodes.value.length > 0;
  const selinux = Promise.resolve().then(() => readSelinux(SELINUX_DIR));
  const files = createFiles();
  const kubeconfig = await chooseKubeConfig(context, files);
  const { dataDir } = context.global;
  const { config } = session;
  const found = await findMachineDir(files, { kubeconfig, server: config.server, dataDir });
  const processes: Facts["processes"] =
    found === undefined
      ? {
          failure: `neither the directory of ${kubeconfig} nor ${dataDir} holds the machine of ${config.server}: name its data directory by --data-dir`,
        }
      : await observe(describeMachine(found));
  return {
    processes,
    selinux: await observe(selinux),
    podTrial: hasNode
      ? await observe(tryPod(session, context.signal))
      : { failure: "there is no node that could start one" },
  };
}

export async function collectFacts(context: Context, session: Session): Promise<Facts> {
  const { store } = session.client;
  const [apiServices, webhooks, kubevirts] = await Promise.all([
    list(session, API_SERVICES, PATCHBAY_OBJECTS),
    readWebhooks(session),
    list(session, KUBEVIRTS),
  ]);
  const serverVersion = await observe(
    readJson(session, "/version").then(({ gitVersion }) => String(gitVersion)),
  );
  const nodes = await list(session, NODES);
  const leaseKey = { namespace: names.SERVICES_NAMESPACE, name: "virt-controller" };
  const serviceSelection = { ...PATCHBAY_OBJECTS, namespace: names.SERVICES_NAMESPACE };
  return {
    serverVersion,
    apiServices,
    webhooks,
    apis: await Promise.all(wantedApis().map((wanted) => readApi(session, wanted))),
    trial: await observe(tryAdmission(session)),
    certificates: await readCertificates(session, { apiServices, webhooks }),
    deployments: await list(session, DEPLOYMENTS, serviceSelection),
    daemonSets: await list(session, DAEMON_SETS, serviceSelection),
    ...(await readProcesses({ serverVersion, nodes }, context, session)),
    nodes,
    useEmulation: "value" in kubevirts && usesEmulation(kubevirts.value[0]),
    offersDataplane: "value" in kubevirts && isDataplaneEnabled(kubevirts.value[0]),
    unlimitedTenants: await listUnlimitedTenants(session),
    networks: await list(session, NETWORK_ATTACHMENT_DEFINITIONS),
    networkEvents: await list(session, EVENTS, NETWORK_EVENTS),
    vmis: await list(session, VIRTUAL_MACHINE_INSTANCES),
    pods: await list(session, PODS, LAUNCHERS),
    leader: await observe(store.find(LEASES, leaseKey)),
    nodeLeases: await list(session, LEASES, { namespace: NODE_LEASES }),
    nowMs: session.clock.now(),
  };
}
