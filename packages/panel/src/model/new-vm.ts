// SPDX-License-Identifier: Apache-2.0
// The form of a new VM, and its conversion to the input of `patchbay create vm`.
import type { KubeObject } from "@patchbay/api/kubernetes";
import {
  findNewVmProblems,
  makeNetwork,
  makePassword,
  makeUserData,
  PUBLIC_KEY,
  ROOT,
  withOwner,
  type NewSecret,
  type NewVm,
} from "@patchbay/core/new-vm";
import type { RandomBytes } from "@patchbay/core/nics";
import { toRelativeNetwork } from "./jacks.ts";

export interface NewVmForm {
  readonly namespace: string;
  readonly name: string;
  /** Image of the root disk, from the standalone machine or a registry. */
  readonly image: string;
  readonly memory: string;
  readonly cores: number;
  /** Networks, each as `namespace/name`. */
  readonly networks: readonly string[];
  /** Size of a persistent root disk that is copied from the image. If empty, each start of the VM creates a new disk from the image. */
  readonly rootSize: string;
  readonly disk: string;
  /** User that may log in with `password`; empty to add no user to the image. */
  readonly user: string;
  readonly password: string;
  /** SSH key for the login; empty for a login without a key. */
  readonly sshKey: string;
  readonly isStarted: boolean;
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const AMOUNT = /^\d+(Mi|Gi|M|G)$/;
/** Pattern of user names. Source: useradd(8). */
const USER = /^[a-z_][a-z0-9_-]{0,31}$/;

type Check = (form: NewVmForm) => boolean;

const CHECKS: readonly (readonly [field: keyof NewVmForm, isValid: Check, hint: string])[] = [
  ["name", ({ name }) => NAME.test(name), "a name of lower-case letters, digits and dashes"],
  ["namespace", ({ namespace }) => NAME.test(namespace), "a namespace"],
  ["image", ({ image }) => image.trim() !== "", "the image of its disk"],
  ["memory", ({ memory }) => AMOUNT.test(memory), "an amount, for example 512Mi"],
  [
    "rootSize",
    ({ rootSize }) => rootSize === "" || AMOUNT.test(rootSize),
    "an amount, for example 10Gi",
  ],
  ["disk", ({ disk }) => disk === "" || AMOUNT.test(disk), "an amount, for example 10Gi"],
  ["user", ({ user }) => user === "" || USER.test(user), "a name of lower-case letters"],
  ["password", ({ user, password }) => user === "" || password !== "", "the user's password"],
  [
    "sshKey",
    ({ sshKey }) => sshKey.trim() === "" || PUBLIC_KEY.test(sshKey.trim()),
    "a public key, as in a file that ends in .pub",
  ],
  [
    "networks",
    (form) => findNewVmProblems(buildNewVm(form)).length === 0,
    "networks of different names; plug the others later",
  ],
  ["cores", ({ cores }) => Number.isInteger(cores) && cores >= 1, "a number from 1"],
];

type Problems = Readonly<Partial<Record<keyof NewVmForm, string>>>;

export function findProblems(form: NewVmForm): Problems {
  const failed = CHECKS.filter(([, isValid]) => !isValid(form));
  return Object.fromEntries(failed.map(([field, , hint]) => [field, hint]));
}

/** Returns a form with the defaults of `patchbay create vm`, and a generated password. */
export function emptyForm(namespace: string, randomBytes: RandomBytes): NewVmForm {
  return {
    namespace,
    name: "",
    image: "",
    memory: "1Gi",
    cores: 1,
    networks: [],
    rootSize: "",
    disk: "",
    user: "admin",
    password: makePassword(randomBytes),
    sshKey: "",
    isStarted: true,
  };
}

/** Converts the form to a VM without MACs and without cloud-init network data; the caller adds both. */
function buildNewVm(form: NewVmForm): NewVm {
  const { namespace, name, image, memory, cores, rootSize, disk, user, password } = form;
  const key = form.sshKey.trim();
  const login = user === "" ? undefined : { user, password };
  return {
    namespace,
    name,
    volumes: [{ name: ROOT, source: { image: image.trim() }, bootOrder: 1 }],
    ...(rootSize !== "" && { rootSize }),
    size: { memory, cpus: cores },
    instancetype: undefined,
    preference: undefined,
    userData: makeUserData(login, key === "" ? [] : [key]),
    disks: disk === "" ? [] : [disk],
    networks: form.networks.map((network) => toRelativeNetwork(network, namespace)),
    macs: new Map(),
    isStopped: !form.isStarted,
  };
}

/** Converts a valid form. Generates MACs if the VM has several NICs. */
export function toNewVm(form: NewVmForm, randomBytes: RandomBytes): NewVm {
  const newVm = buildNewVm(form);
  return { ...newVm, ...makeNetwork(newVm.networks, newVm.macs, randomBytes) };
}

function isNewSecret(body: object): body is NewSecret {
  return "kind" in body && body.kind === "Secret";
}

/**
 * Returns the new Secret `body` with the VM as its owner. `answers` are the bodies of earlier responses, one of which contains the
 * created VM. Returns `body` unchanged if it is not a Secret, or if no response contains a VM.
 */
export function withVmAsOwner(body: object, answers: readonly string[]): object {
  if (!isNewSecret(body)) return body;
  const created = answers.map((text) => JSON.parse(text) as KubeObject);
  const vm = created.find(({ kind }) => kind === "VirtualMachine");
  return vm === undefined ? body : withOwner(vm, body);
}
