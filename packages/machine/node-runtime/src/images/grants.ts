// SPDX-License-Identifier: Apache-2.0
// Whom has a registry given which image? Kept on disk: what one namespace has fetched by its secret is no other's.
// Source: Kubernetes KEP-2535, ensure secret pulled images.
import { createHash } from "node:crypto";
import { join } from "node:path";
import { isJsonObject, parseJson } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import type { Files, Logger, RegistryCredentials } from "@patchbay/core/ports";

/** Who has shown to a repository's registry that they may have the image. */
interface Grant {
  /** The registry asked for nothing. */
  readonly anyone: boolean;
  /** Hashes of what it was told, the latest last. */
  readonly credentials: readonly string[];
}

/** By repository: who may have the image from one may not have it from another. */
type Record = ReadonlyMap<string, Grant>;

/** How many are remembered for each image of a repository: whoever is forgotten asks the registry again. */
const CREDENTIALS_MAX = 64;
const FILE_MODE = 0o600;
const DIRECTORY_MODE = 0o700;

/** An image under the name of a repository. */
export interface GrantedImage {
  readonly id: string;
  readonly repository: string;
}

/** What was shown to registries. */
export interface Grants {
  /** Whether a registry has given the image to everybody. */
  isForAnyone(image: GrantedImage): Promise<boolean>;
  /** Whether it was given to somebody who told one of these. */
  hasShown(image: GrantedImage, credentials: readonly RegistryCredentials[]): Promise<boolean>;
  /** Remembers that it was given to who told this; undefined: to nobody in particular. */
  give(image: GrantedImage, credentials: RegistryCredentials | undefined): Promise<void>;
  /** Forgets all images but these. */
  keepOnly(ids: ReadonlySet<string>): Promise<void>;
}

/** What they are kept with. */
export interface GrantDeps {
  readonly files: Files;
  readonly log: Logger;
  /** Absolute; made when it is needed. */
  readonly directory: string;
}

const NOBODY: Grant = { anyone: false, credentials: [] };

/** Of one image and repository: the same password elsewhere has another. */
function hashOf({ id, repository }: GrantedImage, told: RegistryCredentials): string {
  const { username = "", password = "", identityToken = "" } = told;
  const parts = [id, repository, username, password, identityToken];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

function readGrant(value: unknown): Grant {
  if (!isJsonObject(value)) return NOBODY;
  const { anyone, credentials } = value;
  const hashes = Array.isArray(credentials) ? credentials : [];
  return {
    anyone: anyone === true,
    credentials: hashes.filter((hash) => typeof hash === "string"),
  };
}

/** What is no such file grants nothing. */
function readRecord(text: string | undefined): Record {
  const value = text === undefined ? undefined : parseJson(text);
  const entries = isJsonObject(value) ? Object.entries(value) : [];
  return new Map(entries.map(([repository, grant]) => [repository, readGrant(grant)]));
}

function withShown(grant: Grant, hash: string | undefined): Grant {
  if (hash === undefined) return { ...grant, anyone: true };
  const others = grant.credentials.filter((one) => one !== hash);
  return { ...grant, credentials: [...others, hash].slice(-CREDENTIALS_MAX) };
}

class GrantFiles implements Grants {
  readonly #deps: GrantDeps;
  /** As the files have them, by id. */
  readonly #records = new Map<string, Record>();

  constructor(deps: GrantDeps) {
    this.#deps = deps;
  }

  async isForAnyone(image: GrantedImage): Promise<boolean> {
    return (await this.#grantOf(image)).anyone;
  }

  async hasShown(
    image: GrantedImage,
    credentials: readonly RegistryCredentials[],
  ): Promise<boolean> {
    const grant = await this.#grantOf(image);
    return credentials.some((told) => grant.credentials.includes(hashOf(image, told)));
  }

  async give(image: GrantedImage, told: RegistryCredentials | undefined): Promise<void> {
    const before = await this.#recordOf(image.id);
    const hash = told === undefined ? undefined : hashOf(image, told);
    const grant = withShown(before.get(image.repository) ?? NOBODY, hash);
    const record = new Map([...before, [image.repository, grant]]);
    this.#records.set(image.id, record);
    await this.#write(image.id, record);
  }

  async keepOnly(ids: ReadonlySet<string>): Promise<void> {
    const { directory, files } = this.#deps;
    const kept = new Set([...ids].map(encodeURIComponent));
    for (const id of this.#records.keys()) if (!ids.has(id)) this.#records.delete(id);
    for (const name of await files.list(directory)) {
      if (!kept.has(name)) await files.remove(join(directory, name));
    }
  }

  async #grantOf({ id, repository }: GrantedImage): Promise<Grant> {
    return (await this.#recordOf(id)).get(repository) ?? NOBODY;
  }

  async #recordOf(id: string): Promise<Record> {
    const known = this.#records.get(id);
    if (known !== undefined) return known;
    const read = readRecord(await this.#deps.files.readText(this.#pathOf(id)));
    const record = this.#records.get(id) ?? read; // given while it was read
    this.#records.set(id, record);
    return record;
  }

  /** What cannot be written is asked for again by the next process. */
  async #write(id: string, record: Record): Promise<void> {
    const { directory, files, log } = this.#deps;
    try {
      await files.ensureDirectory(directory, DIRECTORY_MODE);
      const text = JSON.stringify(Object.fromEntries(record));
      await files.writeAtomic(this.#pathOf(id), text, FILE_MODE);
    } catch (error) {
      log.warn("who may use an image cannot be saved", { object: id, reason: messageOf(error) });
    }
  }

  #pathOf(id: string): string {
    return join(this.#deps.directory, encodeURIComponent(id));
  }
}

/** Those that the directory has. */
export function createGrants(deps: GrantDeps): Grants {
  return new GrantFiles(deps);
}
