// SPDX-License-Identifier: Apache-2.0
// Definitions that an administrator keeps in files of the node. A NetworkAttachmentDefinition without `spec.config` means
// the file whose network has its name. Source: NPWG 1.3 section 3.4.1; network-attachment-definition-client, cniconfig.go.
import { isJsonObject, parseJson } from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import type { Files, Logger } from "@patchbay/core/ports";
import { textProblem } from "./network-config.ts";

/** A file that defines a network. */
export interface DefinitionFile {
  /** Absolute. */
  readonly path: string;
  readonly text: string;
}

/** What was found for one name. */
export interface DefinitionSearch {
  /** The first file, by file name, whose `name` it is; absent: no file has it. */
  readonly file?: DefinitionFile;
  /** Names of the networks that were come across, sorted. */
  readonly names: readonly string[];
  /** Files that no name could be read from, each with its reason. */
  readonly unreadable: readonly string[];
}

/** The definitions in the files of one directory. */
export interface DefinitionFiles {
  /** Absolute. */
  readonly directory: string;
  /** Looks anew each time, since files come and go. A file that cannot be read is no reason not to look at the others. */
  find(name: string): Promise<DefinitionSearch>;
}

/** Source: the same, GetCNIConfigFromFile. */
const SUFFIXES: readonly string[] = [".conf", ".json", ".conflist"];

interface Deps {
  readonly files: Pick<Files, "list" | "readText">;
  readonly log: Logger;
}

/** What a file says: which network it defines, or why nobody knows. */
type Said = { readonly name: string } | { readonly reason: string };

function sayOf(text: string): Said {
  const config = parseJson(text);
  if (!isJsonObject(config)) return { reason: textProblem(text) };
  const { name } = config;
  return typeof name === "string" && name !== "" ? { name } : { reason: "has no name" };
}

class DirectoryOfDefinitions implements DefinitionFiles {
  readonly directory: string;
  readonly #deps: Deps;
  /** Why files could not be read, by path: each reason is logged once. */
  readonly #told = new Map<string, string>();

  constructor(deps: Deps, directory: string) {
    this.#deps = deps;
    this.directory = directory;
  }

  async find(name: string): Promise<DefinitionSearch> {
    const names = new Set<string>();
    const unreadable: string[] = [];
    for (const fileName of await this.#deps.files.list(this.directory)) {
      if (!SUFFIXES.some((suffix) => fileName.endsWith(suffix))) continue;
      const path = `${this.directory}/${fileName}`;
      const text = await this.#read(path);
      const said = typeof text === "string" ? sayOf(text) : text;
      this.#tell(path, said);
      if ("reason" in said) unreadable.push(`${fileName} ${said.reason}`);
      else names.add(said.name);
      if (typeof text === "string" && "name" in said && said.name === name) {
        return { file: { path, text }, names: [...names].toSorted(), unreadable };
      }
    }
    return { names: [...names].toSorted(), unreadable };
  }

  /** The text, or why there is none: a file may have gone meanwhile, or be a directory. */
  async #read(path: string): Promise<string | { readonly reason: string }> {
    try {
      return (await this.#deps.files.readText(path)) ?? { reason: "is gone" };
    } catch (error) {
      if (isAppError(error)) return { reason: `cannot be read: ${error.message}` };
      throw error;
    }
  }

  #tell(path: string, said: Said): void {
    if ("name" in said) {
      this.#told.delete(path);
      return;
    }
    if (this.#told.get(path) === said.reason) return;
    this.#told.set(path, said.reason);
    this.#deps.log.warn("a file defines no network", { path, reason: said.reason });
  }
}

/** The files of that directory, which need not be there. */
export function createDefinitionFiles(deps: Deps, directory: string): DefinitionFiles {
  return new DirectoryOfDefinitions(deps, directory);
}
