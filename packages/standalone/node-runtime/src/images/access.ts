// SPDX-License-Identifier: Apache-2.0
// Decides which pods may use an image of this machine without pulling it again.
import { createHash } from "node:crypto";
import { join } from "node:path";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import type { KubeVirt } from "@patchbay/api";
import { messageOf, type Logger } from "@patchbay/base";
import { isSpecialAddress, readTrustedNamespaces } from "@patchbay/core/services";
import type { Files, RegistryCredentials, ContainerImage } from "@patchbay/core/interfaces";
import { parseRepository } from "@patchbay/containerd";
import {
  findListedName,
  findRegistryHost,
  isFromRegistry,
  isLocalName,
  listReferenceAliases,
} from "./names.ts";

interface Grant {
  readonly anyone: boolean;
  /** Hashes of the accepted credentials, most recent last. */
  readonly credentials: readonly string[];
}

/** Grants of one image, by repository. A grant for one repository does not apply to another repository. */
type GrantsByRepository = ReadonlyMap<string, Grant>;

/** Maximum number of credentials per image and repository. A pod whose credentials were dropped pulls the image again. */
const CREDENTIALS_MAX = 64;
const FILE_MODE = 0o600;
const DIRECTORY_MODE = 0o700;

interface GrantedImage {
  readonly id: string;
  readonly repository: string;
}

/** Credentials of earlier image pulls. A pod with others must pull, so that the registry checks its access. Source: KEP-2535. */
export interface Grants {
  isPublic(image: GrantedImage): Promise<boolean>;
  hasGrantFor(image: GrantedImage, credentials: readonly RegistryCredentials[]): Promise<boolean>;
  /** Records a pull. `credentials` is undefined if the pull was anonymous. */
  addGrant(image: GrantedImage, credentials: RegistryCredentials | undefined): Promise<void>;
  retainOnly(ids: ReadonlySet<string>): Promise<void>;
}

interface GrantDeps {
  readonly files: Files;
  readonly log: Logger;
  readonly directory: string;
}

const NO_GRANT: Grant = { anyone: false, credentials: [] };

/** Hashes the credentials with image and repository, so that equal credentials of two images have different hashes. */
function computeHash({ id, repository }: GrantedImage, credentials: RegistryCredentials): string {
  const { username = "", password = "", identityToken = "" } = credentials;
  const parts = [id, repository, username, password, identityToken];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

function parseGrant(value: unknown): Grant {
  if (!isJsonObject(value)) return NO_GRANT;
  const { anyone, credentials } = value;
  const hashes = Array.isArray(credentials) ? credentials : [];
  return {
    anyone: anyone === true,
    credentials: hashes.filter((hash) => typeof hash === "string"),
  };
}

function parseGrantRecord(text: string | undefined): GrantsByRepository {
  const value = text === undefined ? undefined : parseJson(text);
  const entries = isJsonObject(value) ? Object.entries(value) : [];
  return new Map(entries.map(([repository, grant]) => [repository, parseGrant(grant)]));
}

function addCredentials(grant: Grant, hash: string | undefined): Grant {
  if (hash === undefined) return { ...grant, anyone: true };
  const otherHashes = grant.credentials.filter((credentialHash) => credentialHash !== hash);
  return { ...grant, credentials: [...otherHashes, hash].slice(-CREDENTIALS_MAX) };
}

class GrantFiles implements Grants {
  readonly #deps: GrantDeps;
  readonly #records = new Map<string, GrantsByRepository>();

  constructor(deps: GrantDeps) {
    this.#deps = deps;
  }

  async isPublic(image: GrantedImage): Promise<boolean> {
    return (await this.#grantOf(image)).anyone;
  }

  async hasGrantFor(
    image: GrantedImage,
    credentials: readonly RegistryCredentials[],
  ): Promise<boolean> {
    const grant = await this.#grantOf(image);
    return credentials.some((candidate) =>
      grant.credentials.includes(computeHash(image, candidate)),
    );
  }

  async addGrant(image: GrantedImage, credentials: RegistryCredentials | undefined): Promise<void> {
    const previousRecord = await this.#recordOf(image.id);
    const hash = credentials === undefined ? undefined : computeHash(image, credentials);
    const grant = addCredentials(previousRecord.get(image.repository) ?? NO_GRANT, hash);
    const record = new Map([...previousRecord, [image.repository, grant]]);
    this.#records.set(image.id, record);
    await this.#write(image.id, record);
  }

  async retainOnly(ids: ReadonlySet<string>): Promise<void> {
    const { directory, files } = this.#deps;
    const retainedNames = new Set([...ids].map(encodeURIComponent));
    for (const id of this.#records.keys()) if (!ids.has(id)) this.#records.delete(id);
    for (const name of await files.list(directory)) {
      if (!retainedNames.has(name)) await files.remove(join(directory, name));
    }
  }

  async #grantOf({ id, repository }: GrantedImage): Promise<Grant> {
    return (await this.#recordOf(id)).get(repository) ?? NO_GRANT;
  }

  async #recordOf(id: string): Promise<GrantsByRepository> {
    const cachedRecord = this.#records.get(id);
    if (cachedRecord !== undefined) return cachedRecord;
    const storedRecord = parseGrantRecord(await this.#deps.files.readText(this.#pathOf(id)));
    const record = this.#records.get(id) ?? storedRecord; // Another call may have set the record during the read.
    this.#records.set(id, record);
    return record;
  }

  /** Saves a record. Logs a failure as a warning: without the record, pods pull the image again. */
  async #write(id: string, record: GrantsByRepository): Promise<void> {
    const { directory, files, log } = this.#deps;
    try {
      await files.ensureDirectory(directory, DIRECTORY_MODE);
      const text = JSON.stringify(Object.fromEntries(record));
      await files.writeAtomic(this.#pathOf(id), text, FILE_MODE);
    } catch (error) {
      log.warn("image grants cannot be saved", { object: id, reason: messageOf(error) });
    }
  }

  #pathOf(id: string): string {
    return join(this.#deps.directory, encodeURIComponent(id));
  }
}

export function createGrants(deps: GrantDeps): Grants {
  return new GrantFiles(deps);
}

interface NamedImage {
  readonly reference: string;
  readonly image: ContainerImage;
}

export interface ImageAccess {
  /** Returns whether a user added the image to this machine. Every pod may use an added image. */
  isAdded(namedImage: NamedImage): Promise<boolean>;
  /** Returns whether the image was pulled anonymously or with one of the credentials. */
  isGranted(
    namedImage: NamedImage,
    credentials: () => Promise<readonly RegistryCredentials[]>,
  ): Promise<boolean>;
  recordPull(
    reference: string,
    id: string,
    credentials: RegistryCredentials | undefined,
  ): Promise<void>;
}

export interface AccessDeps {
  readonly grants: Grants;
  /** Returns whether a user added the image with this full reference. Unset when another program manages containerd. */
  readonly isMarkedAsAdded?: (name: string) => Promise<boolean>;
}

class Access implements ImageAccess {
  readonly #deps: AccessDeps;

  constructor(deps: AccessDeps) {
    this.#deps = deps;
  }

  async isAdded({ reference, image }: NamedImage): Promise<boolean> {
    const name = findListedName(reference, image);
    if (name === undefined) return false;
    if (isLocalName(name) || !isFromRegistry(name, image)) return true;
    return (await this.#deps.isMarkedAsAdded?.(name)) ?? false;
  }

  async isGranted(
    { reference, image }: NamedImage,
    credentials: () => Promise<readonly RegistryCredentials[]>,
  ): Promise<boolean> {
    const { grants } = this.#deps;
    const name = findListedName(reference, image);
    if (name === undefined) return false;
    const grantedImage = { id: image.id, repository: parseRepository(name) };
    return (
      (await grants.isPublic(grantedImage)) || grants.hasGrantFor(grantedImage, await credentials())
    );
  }

  async recordPull(
    reference: string,
    id: string,
    credentials: RegistryCredentials | undefined,
  ): Promise<void> {
    const name = listReferenceAliases(reference).at(-1) ?? reference;
    await this.#deps.grants.addGrant({ id, repository: parseRepository(name) }, credentials);
  }
}

export function createImageAccess(deps: AccessDeps): ImageAccess {
  return new Access(deps);
}

interface UsedRegistry {
  readonly reference: string;
  readonly namespace: string;
}

/** Keeps tenants away from services of the node that listen on loopback and link-local addresses, because containerd connects as the node. */
export interface RegistryPolicy {
  findNamedProblem(use: UsedRegistry): Promise<string | undefined>;
  findResolvedProblem(use: UsedRegistry): Promise<string | undefined>;
}

interface RegistryPolicyDeps {
  readonly readKubeVirt: () => Promise<KubeVirt | undefined>;
  readonly resolve: (host: string) => Promise<readonly string[]>;
}

/** Names of the loopback interface. Source: RFC 6761, 6.3. */
function isLoopbackName(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost");
}

class NodeRegistryPolicy implements RegistryPolicy {
  readonly #deps: RegistryPolicyDeps;

  constructor(deps: RegistryPolicyDeps) {
    this.#deps = deps;
  }

  async findNamedProblem(use: UsedRegistry): Promise<string | undefined> {
    const host = findRegistryHost(use.reference);
    if (host === undefined || isLocalName(use.reference)) return undefined;
    const isForbidden = host === "" || isLoopbackName(host) || isSpecialAddress(host);
    return isForbidden ? this.#describe(host, use) : undefined;
  }

  async findResolvedProblem(use: UsedRegistry): Promise<string | undefined> {
    const host = findRegistryHost(use.reference) ?? "";
    if (host === "") return undefined;
    const addresses = await this.#deps.resolve(host);
    const special = addresses.find(isSpecialAddress);
    return special === undefined ? undefined : this.#describe(`${host} (${special})`, use);
  }

  async #describe(host: string, { namespace }: UsedRegistry): Promise<string | undefined> {
    const trusted = readTrustedNamespaces(await this.#deps.readKubeVirt());
    if (trusted.includes(namespace)) return undefined;
    const where = host === "" ? "has a malformed registry" : `is in registry ${host}`;
    return `it ${where}, but only namespaces ${trusted.join(", ")} may use registries on loopback and link-local addresses (spec.configuration.network.tenantPolicy.trustedNamespaces of the KubeVirt object); name another registry`;
  }
}

export function createRegistryPolicy(deps: RegistryPolicyDeps): RegistryPolicy {
  return new NodeRegistryPolicy(deps);
}
