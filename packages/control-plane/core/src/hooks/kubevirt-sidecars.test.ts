// SPDX-License-Identifier: Apache-2.0
// What the images of KubeVirt's own sidecars are given here: the command line and the environment that they were made for, so
// that images built elsewhere work. Each row's source is a file of KubeVirt's.
import { names, type BindingPlugin, type VirtualMachineInstance } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { withNics } from "../nics/nics.ts";
import { buildHookParts } from "./hook-sidecars.ts";

const REGISTRY = "registry:5000/kubevirt";
const HOOKS_DIR = "/var/run/kubevirt-hooks";
const PODINFO = "/etc/podinfo";

interface Row {
  readonly source: string;
  /** The annotation `hooks.kubevirt.io/hookSidecars`, as it is there. */
  readonly annotation?: string;
  /** Name and registration of the binding of the pod's network. */
  readonly binding?: readonly [name: string, plugin: BindingPlugin];
  readonly want: {
    readonly image: string;
    readonly args?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    readonly mounts?: readonly string[];
  };
}

const ROWS: readonly Row[] = [
  {
    source: "examples/vmi-with-sidecar-hook.yaml: smbios, entry point /sidecar-shim",
    annotation: `[{"args": ["--version", "v1alpha2"], "image": "${REGISTRY}/example-hook-sidecar:devel"}]`,
    want: { image: `${REGISTRY}/example-hook-sidecar:devel`, args: ["--version", "v1alpha2"] },
  },
  {
    source: "cmd/example-hook-sidecar/README.md: smbios before there was a shim",
    annotation: `[{"image": "${REGISTRY}/example-hook-sidecar:devel"}]`,
    want: { image: `${REGISTRY}/example-hook-sidecar:devel` },
  },
  {
    source: "examples/vmi-with-sidecar-hook-configmap.yaml: a script in the shim's own image",
    annotation:
      '[{"args": ["--version", "v1alpha2"], "configMap": {"name": "my-config-map","key": "my_script.sh", "hookPath": "/usr/bin/onDefineDomain"}}]',
    want: {
      image: "shim",
      args: ["--version", "v1alpha2"],
      mounts: [HOOKS_DIR, "/usr/bin/onDefineDomain"],
    },
  },
  {
    source: "cmd/sidecars/qemu-args/README.md",
    annotation: `[{"args": ["--version", "v1alpha2"], "image":"registry/example-example-qemu-args-sidecar:devel"}]`,
    want: {
      image: "registry/example-example-qemu-args-sidecar:devel",
      args: ["--version", "v1alpha2"],
    },
  },
  {
    source: "cmd/sidecars/network-slirp-binding/main.go: no flags",
    binding: ["slirp", { sidecarImage: `${REGISTRY}/network-slirp-binding:devel` }],
    want: {
      image: `${REGISTRY}/network-slirp-binding:devel`,
      env: { NETWORK_BINDING_PLUGIN_NAME: "slirp" },
    },
  },
  {
    source: "cmd/sidecars/network-passt-binding/main.go: no flags",
    binding: ["passt", { sidecarImage: `${REGISTRY}/network-passt-binding:devel`, migration: {} }],
    want: {
      image: `${REGISTRY}/network-passt-binding:devel`,
      env: { NETWORK_BINDING_PLUGIN_NAME: "passt" },
    },
  },
  {
    source: "cmd/sidecars/network-vhostuserdra-binding/main.go: no flags, reads its binding's name",
    binding: [
      "userdra",
      {
        sidecarImage: `${REGISTRY}/network-vhostuserdra-binding:devel`,
        downwardAPI: "device-info",
      },
    ],
    want: {
      image: `${REGISTRY}/network-vhostuserdra-binding:devel`,
      env: { NETWORK_BINDING_PLUGIN_NAME: "userdra" },
      mounts: [HOOKS_DIR, PODINFO],
    },
  },
];

/** With the interface of the pod's network bound by it, where the row has one. */
function vmiOf({ annotation, binding }: Row): VirtualMachineInstance {
  const vmi = aVmi();
  const annotations =
    annotation === undefined ? {} : { [names.HOOK_SIDECARS_ANNOTATION]: annotation };
  const iface = { name: "default", ...(binding && { binding: { name: binding[0] } }) };
  return {
    ...vmi,
    metadata: { ...vmi.metadata, annotations },
    spec: withNics(vmi.spec, [{ name: "default", pod: {} }], [iface]),
  };
}

test.each(ROWS)("$source", (row) => {
  const bindings = row.binding === undefined ? {} : Object.fromEntries([row.binding]);
  const settings = { bindings, allowsHooks: true, sidecarShimImage: "shim" };
  const info = { name: "podinfo", mountPath: PODINFO };
  const { containers } = buildHookParts(vmiOf(row), settings, info);
  const reported = containers.map(({ image, command, args, env = [], volumeMounts = [] }) => ({
    image,
    command,
    args,
    env: Object.fromEntries(env.map(({ name, value }) => [name, value])),
    mounts: volumeMounts.map(({ mountPath }) => mountPath),
  }));
  const { want } = row;
  // No command: what runs is the image's own entry point.
  const base = { command: undefined, args: undefined, mounts: [HOOKS_DIR] };
  const env = { CONTAINER_NAME: "hook-sidecar-0", ...want.env };
  expect(reported).toEqual([{ ...base, ...want, env }]);
});
