// SPDX-License-Identifier: Apache-2.0
// Who may use an image that is on the node? An added one everybody; a pulled one the namespaces for which a registry has
// given it out. Others ask the registry themselves, as on a kubelet that ensures secret-pulled images (KEP-2535).
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { fullReference, repositoryOf } from "@patchbay/containerd";
import type { ContainerImage, Files } from "@patchbay/ports";

/** Stands for everybody: the registry has given the image to nobody in particular. */
const EVERYBODY = "*";
/** Host of references that no registry has. Source: containers/image, short names. */
const LOCAL = "localhost/";

function repositoryIn(reference: string): string | undefined {
  try {
    return repositoryOf(fullReference(reference));
  } catch {
    return undefined; // an id
  }
}

function isAddedName(reference: string, { digests }: ContainerImage): boolean {
  const repository = repositoryIn(reference);
  return repository !== undefined && !digests.some((one) => repositoryIn(one) === repository);
}

/**
 * Whether an administrator has added the image under that name, or under any where it is named by its id: the runtime
 * records a digest of the repository for what it has pulled itself. Source: containerd CRI, PullImage.
 */
export function isAdded(reference: string, image: ContainerImage): boolean {
  const repository = repositoryIn(reference);
  const own = image.tags.filter((tag) => repositoryIn(tag) === repository);
  const names = own.length > 0 ? own : image.tags;
  return image.digests.length === 0 || names.some((name) => isAddedName(name, image));
}

/** Whether no registry can be asked for it. */
export function isLocal(reference: string): boolean {
  return reference.startsWith(LOCAL);
}

/** Remembers for whom images were pulled. */
export interface ImageAccess {
  mayUse(id: string, namespace: string): boolean;
  /** Lets a namespace use an image; without one, everybody. */
  grant(id: string, namespace?: string): Promise<void>;
  /** Forgets all images but these. */
  keep(ids: ReadonlySet<string>): Promise<void>;
}

function parse(text: string | undefined): Map<string, Set<string>> {
  const written = parseJson(text);
  const entries = isJsonObject(written) ? Object.entries(written) : [];
  return new Map(
    entries.map(([id, namespaces]) => {
      const known = Array.isArray(namespaces) ? namespaces : [];
      return [id, new Set(known.filter((one): one is string => typeof one === "string"))];
    }),
  );
}

class FileAccess implements ImageAccess {
  readonly #files: Files;
  readonly #path: string;
  readonly #known: Map<string, Set<string>>;

  constructor(files: Files, path: string, known: Map<string, Set<string>>) {
    this.#files = files;
    this.#path = path;
    this.#known = known;
  }

  mayUse(id: string, namespace: string): boolean {
    const known = this.#known.get(id);
    return known !== undefined && (known.has(EVERYBODY) || known.has(namespace));
  }

  async grant(id: string, namespace = EVERYBODY): Promise<void> {
    if (this.mayUse(id, namespace)) return;
    this.#known.set(id, (this.#known.get(id) ?? new Set()).add(namespace));
    await this.#write();
  }

  async keep(ids: ReadonlySet<string>): Promise<void> {
    const gone = [...this.#known.keys()].filter((id) => !ids.has(id));
    for (const id of gone) this.#known.delete(id);
    if (gone.length > 0) await this.#write();
  }

  async #write(): Promise<void> {
    const written = [...this.#known].map(([id, known]) => [id, [...known].sort()] as const);
    await this.#files.writeAtomic(this.#path, `${JSON.stringify(Object.fromEntries(written))}\n`);
  }
}

/** What the file remembers; one that is not there remembers nothing, and whoever needs an image asks its registry anew. */
export async function openImageAccess(files: Files, path: string): Promise<ImageAccess> {
  return new FileAccess(files, path, parse(await files.readText(path)));
}
