// SPDX-License-Identifier: Apache-2.0
import { names, NETWORK_ATTACHMENT_DEFINITIONS } from "@patchbay/api";
import type { ApiService, KubeNode } from "@patchbay/api/kubernetes";
import { describeObject, isPatchbayObject } from "@patchbay/manifests";
import {
  competingObjects,
  isPodOwner,
  type ClusterDefinition,
  type InstallFacts,
  type PodOwner,
  type Refusal,
} from "../before-install.ts";
import { ifObserved, ok, unknown, warning, wrong, type Finding } from "../finding.ts";
import { judgeVersion } from "./api-server.ts";
import { findReadinessProblems, findVersionProblems } from "./nodes.ts";

const AGGREGATION = "aggregation layer";

function judgeAggregation({ groups, frontProxy, apiServices }: InstallFacts): readonly Finding[] {
  const fix =
    "enable it: https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer";
  const served = ifObserved(AGGREGATION, groups, (value) =>
    value.includes("apiregistration.k8s.io")
      ? []
      : [wrong(AGGREGATION, { message: "the API server does not serve APIServices", fix })],
  );
  const trusted = ifObserved(AGGREGATION, frontProxy, (value) => {
    const hasAuthority = (value?.data?.["requestheader-client-ca-file"] ?? "") !== "";
    return hasAuthority
      ? [ok(AGGREGATION, "is served, with a CA for requests to virt-api")]
      : [
          wrong(AGGREGATION, {
            message:
              "the API server has no CA (--requestheader-client-ca-file): virt-api would reject its requests",
            fix,
          }),
        ];
  });
  const isBroken = ({ status }: ApiService): boolean =>
    status?.conditions?.some(({ type, status: is }) => type === "Available" && is === "False") ===
    true;
  const unavailable = ("value" in apiServices ? apiServices.value : []).filter(
    (service) => !isPatchbayObject(service) && isBroken(service),
  );
  const warnings = unavailable.map(({ metadata }) =>
    warning(
      `APIService ${metadata.name}`,
      "its server does not respond, so namespaces cannot be deleted completely; this does not prevent an installation",
    ),
  );
  return [...served, ...(served.length === 0 ? trusted : []), ...warnings];
}

function judgeRights({ missingRights }: InstallFacts): readonly Finding[] {
  const check = "your rights";
  return ifObserved(check, missingRights, (missing) => [
    missing.length === 0
      ? ok(check, "suffice to create the installation")
      : wrong(check, {
          message: `you may not ${missing.join(", ")}`,
          fix: "use an account with the ClusterRole cluster-admin, by --kubeconfig",
        }),
  ]);
}

function judgeOthers(facts: InstallFacts): readonly Finding[] {
  const check = "other installations";
  return ifObserved(check, competingObjects(facts), (competing) =>
    ifObserved(check, facts.namesakes, (namesakes) => {
      const named = [...new Set([...competing, ...namesakes].map(describeObject))].sort();
      if (named.length === 0) return [ok(check, "none serves Patchbay's kinds or uses its names")];
      const isServed = competing.length > 0;
      const fix = isServed
        ? "remove the other installation, KubeVirt for example; or install net-agent alone beside it: patchbay install --only net-agent"
        : `delete or rename what another component created; label what is Patchbay's: ${names.PART_OF_LABEL}=${names.PRODUCT}`;
      return named.map((name) =>
        wrong(name, { message: "is of another installation, which Patchbay does not change", fix }),
      );
    }),
  );
}

function judgeNetworkKind({ definitions }: InstallFacts): readonly Finding[] {
  const { resource, group, version, kind } = NETWORK_ATTACHMENT_DEFINITIONS;
  const name = `${resource}.${group}`;
  const check = `kind ${kind}`;
  const isServed = ({ spec }: ClusterDefinition): boolean =>
    spec.versions.some((each) => each.name === version && each.served);
  return ifObserved(check, definitions, (all) => {
    const found = all.find(({ metadata }) => metadata.name === name);
    if (found === undefined) return [ok(check, "does not exist yet")];
    return isServed(found)
      ? [ok(check, "exists, and stays unchanged")]
      : [
          wrong(check, {
            message: `exists without the version ${version}`,
            fix: `upgrade the component that created it, Multus for example: kubectl describe crd ${name}`,
          }),
        ];
  });
}

function listImages({ spec }: PodOwner): readonly string[] {
  return spec.template.spec.containers.map(({ image }) => image);
}

function isNamed({ metadata }: PodOwner, pattern: RegExp): boolean {
  return pattern.test(metadata.name);
}

/** Names of the DaemonSets of Multus and of its dynamic networks controller. Sources: deployments of both projects, OpenShift. */
const MULTUS_NAME = /multus/;
const DYNAMIC_NAME = /dynamic-networks/;

function describeMultus(owner: PodOwner): string {
  const isThick =
    listImages(owner).some((image) => image.includes("thick")) ||
    owner.spec.template.spec.containers.some(({ command = [], args = [] }) =>
      [...command, ...args].some((word) => word.includes("multus-daemon")),
    );
  return `${describeDaemonSet(owner)} (${isThick ? "thick" : "thin"} plugin)`;
}

function describeDaemonSet({ metadata }: PodOwner): string {
  return `DaemonSet ${metadata.namespace ?? ""}/${metadata.name}`;
}

function judgeMultusMode(
  { settings: { mode = "multus", podCreation = false } }: InstallFacts,
  multus: PodOwner,
): readonly Finding[] {
  const found = describeMultus(multus);
  if (podCreation) {
    return [
      wrong("Multus", {
        message: `${found} exists: with --pod-creation, every pod would get its networks twice, and net-agent does not start`,
        fix: "leave out --pod-creation, or uninstall Multus",
      }),
    ];
  }
  if (mode === "alone") {
    return [
      wrong("Multus", {
        message: `${found} exists: with --mode alone, net-agent does not adopt its attachments`,
        fix: "install with --mode multus",
      }),
    ];
  }
  return [ok("Multus", `${found} attaches networks of new pods`)];
}

function judgeDynamicController(
  { settings: { mode = "multus" } }: InstallFacts,
  dynamic: PodOwner | undefined,
): readonly Finding[] {
  const check = "dynamic networks controller";
  const isRunning = dynamic !== undefined && dynamic.status?.desiredNumberScheduled !== 0;
  if (mode === "multus-dynamic") {
    if (isRunning)
      return [ok(check, `${describeDaemonSet(dynamic)} attaches networks of running pods`)];
    return [warning(check, "does not run, and with --mode multus-dynamic net-agent plugs no NICs")];
  }
  if (!isRunning) return [];
  return [
    wrong(check, {
      message: `${describeDaemonSet(dynamic)} runs: it and net-agent would both plug NICs`,
      fix: "stop it on all nodes (docs/kubevirt.md), or install with --mode multus-dynamic",
    }),
  ];
}

function listOthers(daemonSets: readonly PodOwner[]): readonly PodOwner[] {
  return daemonSets.filter((each) => !isPatchbayObject(each));
}

function judgeMultus(facts: InstallFacts): readonly Finding[] {
  return ifObserved("Multus", facts.daemonSets, (all) => {
    const others = listOthers(all);
    const dynamic = others.find((each) => isNamed(each, DYNAMIC_NAME));
    const multus = others.find((each) => isNamed(each, MULTUS_NAME) && each !== dynamic);
    const { podCreation = false } = facts.settings;
    const absent = podCreation
      ? "there is none: net-agent attaches all networks when pods are created"
      : "there is none: net-agent attaches networks shortly after a pod starts; --pod-creation attaches them before";
    return [
      ...(multus === undefined ? [ok("Multus", absent)] : judgeMultusMode(facts, multus)),
      ...judgeDynamicController(facts, dynamic),
    ];
  });
}

/** Directories of CNI plugins and of the runtimes' configurations, as DaemonSets mount them from nodes. */
const PLUGIN_DIR = /\/(?:cni[-/]bin|data\/cni|data\/current\/bin)\/?$/;
const CONFIG_DIR = /(?<!multus)\/net\.d\/?$/;
const RUNTIME_CONFIG_DIR = "/etc/cni/net.d";
/** Directories of k3s. Source: its documentation, "Multus and IPAM plugins". */
const K3S_PLUGIN_DIR = "/var/lib/rancher/k3s/data/cni";
const K3S_CONFIG_DIR = "/var/lib/rancher/k3s/agent/etc/cni/net.d";
const BIN_DIR_FLAG = "--cni-bin-dir=";

interface CniDirectory {
  readonly path: string;
  readonly user: string;
}

function listHostPaths(owner: PodOwner): readonly CniDirectory[] {
  const { volumes = [] } = owner.spec.template.spec;
  const paths = volumes.flatMap(({ hostPath }) => (hostPath === undefined ? [] : [hostPath.path]));
  return paths.map((path) => ({ path: path.replace(/\/$/, ""), user: describeDaemonSet(owner) }));
}

function listDirectories(
  daemonSets: readonly PodOwner[],
  nodes: InstallFacts["nodes"],
): readonly CniDirectory[] {
  const k3s = "value" in nodes ? nodes.value.filter(isK3s) : [];
  const own = k3s.slice(0, 1).flatMap(({ metadata }) =>
    [K3S_PLUGIN_DIR, K3S_CONFIG_DIR].map((path) => ({
      path,
      user: `k3s on node ${metadata.name}`,
    })),
  );
  return [...own, ...daemonSets.flatMap(listHostPaths)];
}

function isK3s({ status }: KubeNode): boolean {
  return status?.nodeInfo?.kubeletVersion.includes("+k3s") === true;
}

function listPluginDirs({ objects }: InstallFacts): readonly string[] {
  return objects
    .filter(isPodOwner)
    .flatMap(({ spec }) => spec.template.spec.containers.flatMap(({ args = [] }) => args))
    .filter((arg) => arg.startsWith(BIN_DIR_FLAG))
    .map((arg) => arg.slice(BIN_DIR_FLAG.length));
}

function judgeDirectories(facts: InstallFacts): readonly Finding[] {
  const check = "CNI directories";
  return ifObserved(check, facts.daemonSets, (all) => {
    const directories = listDirectories(listOthers(all), facts.nodes);
    const known = listPluginDirs(facts);
    const isKnown = ({ path }: CniDirectory): boolean => known.includes(path);
    const plugins = directories.filter(({ path }) => PLUGIN_DIR.test(path));
    const unknownDirs = plugins.some(isKnown) ? [] : plugins;
    const configs = directories.filter(({ path }) => CONFIG_DIR.test(path));
    const isConfigRead =
      configs.length === 0 || configs.some(({ path }) => path === RUNTIME_CONFIG_DIR);
    const warnings = unknownDirs.map(({ path, user }) =>
      warning(
        check,
        `${user} has its plugins in ${path}, where net-agent does not search: if networks use them, add ${BIN_DIR_FLAG}${path} to the arguments of net-agent's DaemonSet`,
      ),
    );
    const { podCreation = false } = facts.settings;
    if (podCreation && !isConfigRead) {
      const [first] = configs;
      return [
        ...warnings,
        wrong(check, {
          message: `${first?.user ?? ""} has the runtime's configuration in ${first?.path ?? ""}: with --pod-creation, net-agent would write to ${RUNTIME_CONFIG_DIR}, which the runtime does not read`,
          fix: "leave out --pod-creation",
        }),
      ];
    }
    return warnings.length > 0 ? warnings : [ok(check, `net-agent uses ${known.join(" and ")}`)];
  });
}

const ENFORCE_LABEL = "pod-security.kubernetes.io/enforce";
const ADMIT_AGENTS = `let the namespace run agents: kubectl label namespace ${names.SERVICES_NAMESPACE} ${ENFORCE_LABEL}=privileged --overwrite`;

function judgePodRefusal({ name, reason }: Refusal): Finding {
  const isSecurity = reason.includes("PodSecurity");
  return wrong(`pods of ${name}`, {
    message: `the API server refuses them: ${reason}`,
    fix: isSecurity
      ? ADMIT_AGENTS
      : `exclude the namespace ${names.SERVICES_NAMESPACE} from this policy`,
  });
}

function judgeNamespace({
  namespace,
  refusedPods,
  isPodAccount,
}: InstallFacts): readonly Finding[] {
  const check = `namespace ${names.SERVICES_NAMESPACE}`;
  return ifObserved(check, namespace, (value) => {
    if (value === undefined || refusedPods === undefined)
      return [ok(check, "is created with the pod security level privileged")];
    if (value.status?.phase === "Terminating") {
      return [
        wrong(check, {
          message: "is being deleted",
          fix: `wait until it is deleted; if it stays, see why: kubectl describe namespace ${names.SERVICES_NAMESPACE}`,
        }),
      ];
    }
    const level = value.metadata.labels?.[ENFORCE_LABEL] ?? "privileged";
    if (isPodAccount && level !== "privileged") {
      const message = `has the pod security level ${level}, which refuses the agents' pods`;
      return [wrong(check, { message, fix: ADMIT_AGENTS })];
    }
    return ifObserved(check, refusedPods, (refused) => {
      // The installation sets the labels of its namespace. A Helm chart cannot.
      const remaining = isPodAccount
        ? refused
        : refused.filter(({ reason }) => !reason.includes("PodSecurity"));
      return remaining.length > 0
        ? remaining.map(judgePodRefusal)
        : [ok(check, "admits the pods of the agents")];
    });
  });
}

function judgeWebhooks({ blockingWebhooks }: InstallFacts): readonly Finding[] {
  const check = "webhooks of others";
  return ifObserved(check, blockingWebhooks, (all) => {
    const findings = all.flatMap(({ name, service, isReady, isConditional }) => {
      if ("failure" in isReady) return [unknown(name, isReady.failure)];
      if (isReady.value) return [];
      const message = `its Service ${service} has no ready endpoint, so the API server would refuse objects of Patchbay`;
      if (isConditional === true)
        return [warning(name, `${message}, unless its matchConditions exclude them`)];
      const fix = `start its server, or exclude the namespace ${names.SERVICES_NAMESPACE} by the webhook's namespaceSelector`;
      return [wrong(name, { message, fix })];
    });
    return findings.length > 0 ? findings : [ok(check, "none is without a server")];
  });
}

function judgeNode(node: KubeNode): readonly Finding[] {
  const check = `node ${node.metadata.name}`;
  const versions = findVersionProblems(node).map((problem) => wrong(check, problem));
  const readiness = findReadinessProblems(node).map(({ message, fix }) =>
    warning(check, `${message}; its agents start later; ${fix}`),
  );
  return [...versions, ...readiness];
}

function judgeNodes({ nodes }: InstallFacts): readonly Finding[] {
  return ifObserved("nodes", nodes, (all) => {
    const linux = all.filter(({ status }) => status?.nodeInfo?.operatingSystem !== "windows");
    if (linux.length === 0) return [warning("nodes", "there is none yet: nothing will run")];
    const findings = linux.flatMap(judgeNode);
    const message = `${String(linux.length)} with a supported kernel and container runtime`;
    return findings.length > 0 ? findings : [ok("nodes", message)];
  });
}

/** Images that a kubelet lists in a node's status at most, by default. Source: kubelet, nodeStatusMaxImages. */
const LISTED_IMAGES_MAX = 50;

function hasImage({ status }: KubeNode, image: string): boolean {
  return status?.images?.some(({ names: all = [] }) => all.includes(image)) === true;
}

function judgeImage(image: string, nodes: readonly KubeNode[]): Finding {
  const check = `image ${image}`;
  const lacking = nodes.filter((node) => !hasImage(node, image));
  if (lacking.length === 0) return ok(check, "is on all nodes");
  const where = lacking.map(({ metadata }) => metadata.name).join(", ");
  if (!image.startsWith("localhost/"))
    return unknown(check, `not yet on ${where}: the API does not show whether they can pull it`);
  const certain = lacking.filter(({ status }) => {
    const listed = status?.images?.length ?? 0;
    return listed > 0 && listed < LISTED_IMAGES_MAX;
  });
  if (certain.length === 0)
    return unknown(check, `the API does not show whether it was imported on ${where}`);
  return wrong(check, {
    message: `is not on ${certain.map(({ metadata }) => metadata.name).join(", ")}, and cannot be pulled, because it names no registry`,
    fix: "import the archive on each node (docs/install.md), or name an image in a registry: patchbay install --image",
  });
}

function judgeImages({ objects, nodes }: InstallFacts): readonly Finding[] {
  const images = new Set(objects.filter(isPodOwner).flatMap(listImages));
  const all = "value" in nodes ? nodes.value : [];
  return all.length === 0 ? [] : [...images].map((image) => judgeImage(image, all));
}

function judgePlan({ plan }: InstallFacts): readonly Finding[] {
  const check = "admission of the objects";
  return ifObserved(check, plan, ({ refusals }) => {
    if (refusals.length === 0) return [ok(check, "the API server accepts them in a dry run")];
    return refusals.map(({ name, reason }) =>
      wrong(name, {
        message: `the API server refuses it: ${reason}`,
        fix: "correct what the message names: a policy, a quota, a webhook, or a right that you lack",
      }),
    );
  });
}

function judgeOpenShift({ groups }: InstallFacts): readonly Finding[] {
  const isOpenShift = "value" in groups && groups.value.includes("security.openshift.io");
  if (!isOpenShift) return [];
  return [
    warning(
      "SecurityContextConstraints",
      `the agents need the SCC privileged: oc adm policy add-scc-to-user privileged -z net-agent -z virt-handler -n ${names.SERVICES_NAMESPACE}`,
    ),
  ];
}

type Judge = (facts: InstallFacts) => readonly Finding[];

const JUDGES: readonly Judge[] = [
  judgeAggregation,
  judgeRights,
  judgeOthers,
  judgeNetworkKind,
  judgeMultus,
  judgeNamespace,
  judgeWebhooks,
  judgeNodes,
  judgePlan,
];

/** Checks of what a Helm chart sets by values, which its Job does not know. */
const SETTINGS_JUDGES: readonly Judge[] = [judgeDirectories, judgeOpenShift, judgeImages];

export function judgeBeforeInstall(facts: InstallFacts): readonly Finding[] {
  const judges = facts.isPodAccount ? JUDGES : [...JUDGES, ...SETTINGS_JUDGES];
  return [
    ...ifObserved("API server", facts.serverVersion, judgeVersion),
    ...judges.flatMap((judge) => judge(facts)),
  ];
}
