// SPDX-License-Identifier: Apache-2.0
// Which objects make the VM that the form asks for? The shape is that of `patchbay create vm`. Pure.
import type { KubeObject } from "@patchbay/api";

/** What the form says. */
export interface NewVm {
  readonly namespace: string;
  readonly name: string;
  /** Of its disk, as `patchbay image list` or a registry names it. */
  readonly image: string;
  /** As Kubernetes writes it. */
  readonly memory: string;
  readonly cores: number;
  /** `namespace/name` each. */
  readonly networks: readonly string[];
  /** May log in; empty: nobody is named. */
  readonly sshKey: string;
  readonly isStarted: boolean;
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const AMOUNT = /^\d+(Mi|Gi|M|G)$/;

/** What is missing or wrong, by the form's field. */
export function problemsOf(order: NewVm): Readonly<Partial<Record<keyof NewVm, string>>> {
  const problems: Partial<Record<keyof NewVm, string>> = {};
  if (!NAME.test(order.name)) problems.name = "a name of small letters, digits and dashes";
  if (!NAME.test(order.namespace)) problems.namespace = "a namespace";
  if (order.image.trim() === "") problems.image = "the image of its disk";
  if (!AMOUNT.test(order.memory)) problems.memory = "an amount, for example 512Mi";
  if (!Number.isInteger(order.cores) || order.cores < 1) problems.cores = "a number from 1";
  return problems;
}

const CLOUD_INIT = "cloud-init";

function secretOf({ namespace, name, sshKey }: NewVm): KubeObject {
  const userdata = `#cloud-config\nssh_authorized_keys:\n  - ${JSON.stringify(sshKey.trim())}\n`;
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: `${name}-cloud-init`, namespace },
    stringData: { userdata },
  } as KubeObject; // stringData is a field of what is sent only
}

function nicsOf({ networks, namespace }: NewVm) {
  const named = networks.map((network) => ({
    name: network.split("/").at(-1) ?? network,
    multus: {
      networkName: network.startsWith(`${namespace}/`)
        ? network.slice(namespace.length + 1)
        : network,
    },
  }));
  return [{ name: "default", pod: {} }, ...named];
}

/** Those of an order, in the order in which they are created. */
export function newVmObjects(order: NewVm): readonly KubeObject[] {
  const { namespace, name, image, memory, cores, sshKey, isStarted } = order;
  const hasKey = sshKey.trim() !== "";
  const networks = nicsOf(order);
  const disks = [{ name: "root", disk: { bus: "virtio" } }];
  const volumes: object[] = [{ name: "root", containerDisk: { image } }];
  if (hasKey) {
    disks.push({ name: CLOUD_INIT, disk: { bus: "virtio" } });
    const secretRef = { name: `${name}-cloud-init` };
    volumes.push({ name: CLOUD_INIT, cloudInitNoCloud: { secretRef } });
  }
  const interfaces = networks.map((network) => ({ name: network.name, bridge: {} }));
  const vm = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name, namespace },
    spec: {
      runStrategy: isStarted ? "Always" : "Halted",
      template: {
        spec: {
          domain: { cpu: { cores }, memory: { guest: memory }, devices: { disks, interfaces } },
          networks,
          volumes,
        },
      },
    },
  };
  return hasKey ? [secretOf(order), vm] : [vm];
}
