// SPDX-License-Identifier: Apache-2.0
// The layers of ARCHITECTURE.md as rules. Each rule's comment says how to resolve a violation.
const PURE = "^packages/(common/base|control-plane/(api|core|domain))/";
/** Each package adapts one part of the outside world. */
const ADAPTERS =
  "(adapters/[^/]+|common/(?:manifests|pki|telemetry)|standalone/(?:apiserver|containerd))";
/** Each package is a program. */
const APPS =
  "(control-plane/(?:net-agent|virt-[a-z]+)|standalone/(?:node-runtime|service-net|supervisor)|cli)";
const NOT_TEST = "(\\.test\\.ts$|/src/testing/)";
/** Folders of core, lowest first. Each may import only the folders before it. */
const CORE_FLOORS = [
  "node",
  "vm/spec",
  "reasons",
  "nics/bindings",
  "nics/links",
  "nics/pcie",
  "vm/domain",
  "vm/node",
  "vm/pod",
  "requests",
];

module.exports = {
  forbidden: [
    {
      name: "no-cycles",
      severity: "error",
      comment: "Cut the circle: move what both need into a file below both.",
      from: {},
      to: { circular: true },
    },
    {
      name: "pure-needs-nothing",
      severity: "error",
      comment:
        "Pure packages import each other only; a library that touches nothing is listed here; take a fact or a function as a parameter.",
      from: { path: PURE, pathNot: NOT_TEST },
      to: {
        pathNot: [PURE, "node_modules/(@noble/hashes|ipaddr\\.js|typebox|yaml|fast-xml-[a-z]+)/"],
      },
    },
    {
      name: "api-below-domain-below-core",
      severity: "error",
      comment: "api <- domain <- core; move the code down or take a parameter.",
      from: { path: "^packages/control-plane/api/" },
      to: { path: "^packages/control-plane/(domain|core)/" },
    },
    {
      name: "base-below-all",
      severity: "error",
      comment: "base is used by every package; move what knows a VM or a NIC to core.",
      from: { path: "^packages/common/base/" },
      to: { path: "^packages/(?!common/base/)" },
    },
    {
      name: "domain-below-core",
      severity: "error",
      comment: "domain knows nothing of decisions.",
      from: { path: "^packages/control-plane/domain/" },
      to: { path: "^packages/control-plane/core/" },
    },
    ...CORE_FLOORS.slice(0, -1).map((floor, index) => ({
      name: `core-${floor.replaceAll("/", "-")}-knows-no-floor-above`,
      severity: "error",
      comment: "Folders of core stand on each other; move what both need to the lower one.",
      from: { path: `^packages/control-plane/core/src/${floor}/`, pathNot: NOT_TEST },
      to: { path: `^packages/control-plane/core/src/(${CORE_FLOORS.slice(index + 1).join("|")})/` },
    })),
    {
      name: "interfaces-know-no-adapter",
      severity: "error",
      comment: "An interface states what is needed; the implementation is in an adapter.",
      from: { path: "^packages/control-plane/core/src/interfaces/", pathNot: NOT_TEST },
      to: { path: `^packages/(${ADAPTERS}|${APPS})/` },
    },
    {
      name: "adapters-know-no-adapter",
      severity: "error",
      comment: "Take the other thing through its port; the app's compose.ts brings them together.",
      from: { path: `^packages/${ADAPTERS}/`, pathNot: NOT_TEST },
      to: { path: `^packages/${ADAPTERS}/`, pathNot: "^packages/$1/" },
    },
    {
      name: "adapters-know-no-app",
      severity: "error",
      comment: "Arrows point down only.",
      from: { path: `^packages/${ADAPTERS}/` },
      to: { path: `^packages/${APPS}/` },
    },
    {
      name: "apps-know-no-app",
      severity: "error",
      comment:
        "Apps meet through the API server. supervisor starts the others; the command line opens supervisor.",
      from: {
        path: `^packages/${APPS}/`,
        pathNot: ["^packages/standalone/supervisor/", "^packages/cli/", NOT_TEST],
      },
      to: { path: `^packages/${APPS}/`, pathNot: "^packages/$1/" },
    },
    {
      name: "the-control-plane-needs-no-standalone",
      severity: "error",
      comment:
        "A cluster has kubelet, container runtime and API server of its own: what the control plane needs of them is an interface.",
      from: { path: "^packages/(control-plane|adapters|common)/" },
      to: { path: "^packages/standalone/" },
    },
    {
      name: "command-line-opens-supervisor-only",
      severity: "error",
      comment:
        "The command line talks to the API server; only up, down and apiserver start supervisor.",
      from: { path: "^packages/cli/" },
      to: {
        path: "^packages/(control-plane/(net-agent|virt-[a-z]+)|standalone/(node-runtime|service-net))/",
      },
    },
    {
      name: "the-panel-is-a-page",
      severity: "error",
      comment: "A browser loads it: what it needs of the machine, the panel's server passes on.",
      from: { path: "^packages/panel/src/(model|view|browser)/", pathNot: NOT_TEST },
      to: {
        pathNot: [
          "^packages/panel/",
          "^packages/(common/base|control-plane/(api|core))/",
          "node_modules/(preact|@xterm|@novnc|yaml)/",
        ],
      },
    },
    {
      name: "the-panels-model-sees-no-page",
      severity: "error",
      comment: "What is shown is decided from values; take a fact as a parameter.",
      from: { path: "^packages/panel/src/model/" },
      to: { path: "^packages/panel/src/(view|browser)/" },
    },
    {
      name: "no-testing-in-programs",
      severity: "error",
      comment: "Programs contain no fakes: pass the behavior in as a parameter.",
      from: { path: "^packages/", pathNot: [NOT_TEST, "/testing\\.ts$"] },
      to: { path: "^packages/.*/testing(/|\\.ts$)" },
    },
    {
      name: "packages-never-import-tests",
      severity: "error",
      comment: "tests/ and hack/ stand above packages.",
      from: { path: "^packages/", pathNot: NOT_TEST },
      to: { path: "^(tests|hack)/" },
    },
    {
      name: "no-kubernetes-client-in-programs",
      severity: "error",
      comment:
        "Use kube: the client library takes 80 MB. Only generators read its models (ADR 0004).",
      from: { pathNot: "^hack/generate/" },
      to: { path: "node_modules/@kubernetes/" },
    },
    {
      name: "one-door-sqlite",
      severity: "error",
      comment: "Only apiserver/src/storage knows SQLite.",
      from: {
        pathNot: ["^packages/standalone/apiserver/src/storage/", "^tests/versions/", NOT_TEST],
      },
      to: { path: "^node:sqlite$" },
    },
    {
      name: "one-door-winston",
      severity: "error",
      comment: "Take a Logger (ports).",
      from: { pathNot: "^packages/common/telemetry/" },
      to: { path: "node_modules/winston/" },
    },
    {
      name: "one-door-express",
      severity: "error",
      comment: "HTTP servers live in virt-api and apiserver.",
      from: { pathNot: "^packages/(control-plane/virt-api|standalone/apiserver)/" },
      to: { path: "node_modules/express/" },
    },
    {
      name: "one-door-grpc",
      severity: "error",
      comment:
        "Take a ContainerRuntime, Sandboxes or HookSidecars (ports); device-plugin serves kubelets.",
      from: { pathNot: ["^packages/adapters/(cri|device-plugin|hooks)/", "^tests/"] },
      to: { path: "node_modules/@grpc/" },
    },
    {
      name: "one-door-spawn",
      severity: "error",
      comment: "Take a ProcessRunner (ports); long-lived children are started by os too.",
      from: {
        path: "^packages/",
        pathNot: ["^packages/adapters/os/", NOT_TEST],
      },
      to: { path: "^(node:)?child_process$" },
    },
    {
      name: "one-door-files",
      severity: "error",
      comment: "Take Files (ports).",
      from: {
        path: "^packages/",
        pathNot: [
          "^packages/adapters/os/",
          "/(main|config)\\.ts$",
          "^packages/adapters/kube/src/connection/kubeconfig",
          "^packages/common/telemetry/src/logger", // below os
          "^packages/standalone/apiserver/src/storage/(backup|reserve)\\.", // beside what SQLite writes, and within the same turn
          NOT_TEST,
        ],
      },
      to: { path: "^(node:)?fs(/promises)?$" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "(/dist/|/build/|\\.gen\\.)" },
    tsConfig: { fileName: "tsconfig.base.json" },
    tsPreCompilationDeps: true,
    skipAnalysisNotInRules: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["@patchbay/source", "import", "default"],
      extensions: [".ts", ".js", ".mjs", ".cjs"],
    },
  },
};
