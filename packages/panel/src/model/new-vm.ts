// SPDX-License-Identifier: Apache-2.0
// Objects of a new VM, like those of `patchbay create vm`.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { stringify } from "yaml";

export interface NewVm {
  readonly namespace: string;
  readonly name: string;
  /** Image of the disk, on the machine or in a registry. */
  readonly image: string;
  /** Memory as a quantity of Kubernetes. */
  readonly memory: string;
  readonly cores: number;
  /** Networks, each as `namespace/name`. */
  readonly networks: readonly string[];
  readonly disk: string;
  /** User that may log in with the password; empty for the users of the image. */
  readonly user: string;
  readonly password: string;
  /** SSH key for the login; empty for a login without a key. */
  readonly sshKey: string;
  readonly isStarted: boolean;
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const AMOUNT = /^\d+(Mi|Gi|M|G)$/;
/** Pattern of the name of a user. Source: useradd(8). */
const USER = /^[a-z_][a-z0-9_-]{0,31}$/;

const CLOUD_INIT = "cloud-init";

type Check = (order: NewVm) => boolean;

const CHECKS: readonly (readonly [field: keyof NewVm, isValid: Check, hint: string])[] = [
  ["name", ({ name }) => NAME.test(name), "a name of lower-case letters, digits and dashes"],
  ["namespace", ({ namespace }) => NAME.test(namespace), "a namespace"],
  ["image", ({ image }) => image.trim() !== "", "the image of its disk"],
  ["memory", ({ memory }) => AMOUNT.test(memory), "an amount, for example 512Mi"],
  ["disk", ({ disk }) => disk === "" || AMOUNT.test(disk), "an amount, for example 10Gi"],
  ["user", ({ user }) => user === "" || USER.test(user), "a name of lower-case letters"],
  ["password", ({ user, password }) => user === "" || password !== "", "the user's password"],
  ["cores", ({ cores }) => Number.isInteger(cores) && cores >= 1, "a number from 1"],
];

export function findProblems(order: NewVm): Readonly<Partial<Record<keyof NewVm, string>>> {
  const failed = CHECKS.filter(([, isValid]) => !isValid(order));
  return Object.fromEntries(failed.map(([field, , hint]) => [field, hint]));
}

/** Builds the user data for cloud-init. Source: "Users and groups" of the cloud-init documentation. */
function buildUserData({ user, password, sshKey }: NewVm): string {
  const key = sshKey.trim();
  const keys = key === "" ? {} : { ssh_authorized_keys: [key] };
  const administrator = {
    name: user,
    plain_text_passwd: password,
    lock_passwd: false,
    shell: "/bin/bash",
    sudo: "ALL=(ALL) NOPASSWD:ALL",
    ...keys,
  };
  return `#cloud-config\n${stringify(user === "" ? keys : { users: [administrator] })}`;
}

function buildSecret(order: NewVm): KubeObject {
  const { namespace, name } = order;
  const userdata = buildUserData(order);
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: `${name}-cloud-init`, namespace },
    stringData: { userdata },
  } as KubeObject; // the type lacks the write-only field stringData
}

function buildNetworks({ networks, namespace }: NewVm) {
  const namedNetworks = networks.map((network) => ({
    name: network.split("/").at(-1) ?? network,
    multus: {
      networkName: network.startsWith(`${namespace}/`)
        ? network.slice(namespace.length + 1)
        : network,
    },
  }));
  return [{ name: "default", pod: {} }, ...namedNetworks];
}

function buildClaim({ namespace, name, disk }: NewVm): KubeObject {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: `${name}-disk-1`, namespace },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: disk } } },
  } as KubeObject; // the type lacks the field spec
}

export function newVmObjects(order: NewVm): readonly KubeObject[] {
  const { namespace, name, image, memory, cores, disk, user, sshKey, isStarted } = order;
  const hasLogin = user !== "" || sshKey.trim() !== "";
  const networks = buildNetworks(order);
  const disks = [{ name: "root", disk: { bus: "virtio" } }];
  const volumes: object[] = [{ name: "root", containerDisk: { image } }];
  if (hasLogin) {
    disks.push({ name: CLOUD_INIT, disk: { bus: "virtio" } });
    const secretRef = { name: `${name}-cloud-init` };
    volumes.push({ name: CLOUD_INIT, cloudInitNoCloud: { secretRef } });
  }
  if (disk !== "") {
    disks.push({ name: "disk-1", disk: { bus: "virtio" } });
    const persistentVolumeClaim = { claimName: `${name}-disk-1` };
    volumes.push({ name: "disk-1", persistentVolumeClaim });
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
  return [
    ...(disk === "" ? [] : [buildClaim(order)]),
    ...(hasLogin ? [buildSecret(order)] : []),
    vm,
  ];
}
