/* SPDX-License-Identifier: MIT
 *
 * A file on its way to a table, for the files of this folder: file.c opens, transfer.c makes another one
 * and moves the buckets there. */
#ifndef WEIR_STORE_TABLE_FILE_OPENING_H
#define WEIR_STORE_TABLE_FILE_OPENING_H

#include "store/table/file.h"
#include "store/table/file_header.h"

/* Where the file of a table is, to open it again. */
struct file_origin {
    struct file_config config;
    char path[STORE_PATH_MAX];
};

enum {
    FILE_NAME_MAX = STORE_PATH_MAX + 40, // of one that does not have its own yet, with its NUL
    FILE_DESCRIPTOR_MAX = 32             // the path of a descriptor
};

/* What is open so far.
 *   name        under which it is opened: the configured one, but where a successor could not get that
 *   is_growing  it is to be another's successor
 *   is_nameless it has no name yet */
struct opening {
    const struct file_config *config;
    struct weir_error *error;
    char name[FILE_NAME_MAX];
    int fd;
    bool is_growing;
    bool is_nameless;
    uint64_t boot_id[2];
    uint64_t file_bytes;
    uint64_t inode;
    struct mapping mapping;
    struct table *table;
};

/* Opens the file, or makes it. Whatever comes of it, opening_drop() releases what is still there. */
enum weir_status opening_run(struct opening *opening, const struct file_config *config,
                             struct weir_error *error);

/* Opens the file of a table once more, whatever name it has or has lost. `config`: as it was opened, and how it is called
 * in messages. Its buckets may have moved. */
enum weir_status opening_again(struct opening *opening, const struct table *table,
                               const struct file_config *config, struct weir_error *error);

/* The same for one that is there, but for joining those that use it: nobody may use the table. */
enum weir_status opening_look(struct opening *opening, const struct file_config *config,
                              struct weir_error *error);

/* Makes another's successor of config->bytes for config->path, complete and on the disk. What is there is
 * removed first. The file gets that name by opening_give_name(), or now on a file system where every file has a name. */
enum weir_status opening_make(struct opening *opening, const struct file_config *config,
                              struct weir_error *error);

/* Gives a new file its name, if it has none. */
enum weir_status opening_give_name(struct opening *opening);

/* Notes where the file is, for those who will have to look for it again. */
enum weir_status opening_keep_origin(struct opening *opening);

/* Gives the table away, to which the mapping belongs from now on. */
struct table *opening_take_table(struct opening *opening);

void opening_drop(struct opening *opening);

/* Sees to it that opening->name leads on from this file to its successor. Whoever moved the buckets may
 * have died before it gave the new file the name of the old one: then we do, or use the one that it has. */
enum weir_status opening_lead_on(struct opening *opening);

/* Goes on in the file to which the buckets of this table have moved: table_current() leads there. Not WEIR_OK: it cannot
 * be opened. Thread-safe. */
enum weir_status file_go_on(struct table *table, struct weir_error *error);

/* Waits for a mover at work, and lets the buckets stay if it has died or given up. False: they have moved. */
bool file_settle(struct table *table, const char *path);

/* Lets the buckets of a file stay where they are whose mover has died or given up; the half of a successor is
 * removed. Under `moving`. `path`: the name of the file, which it may have lost. */
void file_stay(const struct table *table, const char *path);

/* Where the file really is to which a path leads. False, with errno, if there is none. */
bool file_real_path(char real[STORE_PATH_MAX], const char *path);

/* The same for a file that may be missing: then where one would be made under this absolute path, beyond all symbolic
 * links. False, with errno, if it has no folder. */
bool file_place(char real[STORE_PATH_MAX], const char *path);

/* Where the successor of a file is made: beside it. The inode keeps it apart from the successor of another file, which
 * may have had this name before, or have it now. */
void file_successor_path(char successor[FILE_NAME_MAX], const char *real, uint64_t inode);

/* Shortens an absolute path to that of its folder. */
void file_drop_name(char *path);

/* The path under which the kernel shows an open file. */
void file_descriptor_path(char descriptor[FILE_DESCRIPTOR_MAX], int fd);

/* Gives an open file one more name, unless something else has it: EEXIST. A file that has lost its last name gets no other
 * one: ENOENT. False, with errno. */
bool file_link(int fd, const char *real);

/* Renames a file, unless something else has that name: EEXIST. False, with errno. */
bool file_take_name(const char *from, const char *real);

#endif
