// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/folder_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/index.h"

static bool ends(const char *name, const char *end)
{
    const size_t n = strlen(name), e = strlen(end);
    return n > e && strcasecmp(name + n - e, end) == 0;
}

static bool ends_with_one(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (ends(name, *list)) return true;
    return false;
}

enum qc_file_kind qc_file_kind(const char *name)
{
    static const char *const images[] = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", NULL};
    if (ends(name, ".npy")) return QC_FILE_NPY;
    if (ends(name, ".npz")) return QC_FILE_NPZ;
    return ends_with_one(name, images) ? QC_FILE_IMAGE : QC_FILE_OTHER;
}

struct listing {
    struct qc_folder *out;
    const char *root;
    enum qc_file_kind kind;
    enum qc_follow follow;
    size_t capacity;
    struct qc_arena *arena; /* NULL: only look whether there is a file */
    bool found;
    struct folder_id *folders; /* listed folders by device and inode */
    size_t folder_count, folder_capacity;
    struct qc_index by_id;
};

struct folder_id {
    dev_t device;
    ino_t inode;
};

static bool take_file(struct listing *l, const char *below, const char *name, struct qc_status *st)
{
    /* What people keep beside their data. */
    static const char *const notes[] = {".csv", ".txt", ".json", ".md", ".xml", ".yaml", ".yml", NULL};
    struct qc_folder *f = l->out;
    l->found = l->found || qc_file_kind(name) == l->kind;
    if (!l->arena) return true;
    if (qc_file_kind(name) == l->kind) {
        if (f->count == QC_FOLDER_FILES_MAX)
            return qc_fail(st, QC_UNSUPPORTED, "%s: it has more than %d files", l->root, (int)QC_FOLDER_FILES_MAX);
        const char **more = qc_grown(f->files, f->count, &l->capacity, sizeof(const char *), st);
        if (!more) return false;
        f->files = more;
        return (f->files[f->count++] = qc_arena_strdup(l->arena, below, st)) != NULL;
    }
    if (ends_with_one(name, notes)) return true;
    f->others++;
    if (!f->first_other) f->first_other = qc_arena_strdup(l->arena, below, st);
    return f->first_other != NULL;
}

/* Records a folder. Fails if it was listed before: links can form cycles and endlessly many paths. */
static bool enter_folder(struct listing *l, const struct stat *info, const char *path, struct qc_status *st)
{
    const struct folder_id id = {.device = info->st_dev, .inode = info->st_ino};
    const uint64_t hash = qc_hash_number((uint64_t)id.inode) ^ (uint64_t)id.device;
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&l->by_id, hash, &slot));)
        if (l->folders[i - 1].device == id.device && l->folders[i - 1].inode == id.inode)
            return qc_fail(st, QC_BAD_INPUT, "%s is a folder that would be listed twice; remove the link to it", path);
    if (l->folder_count == QC_FOLDER_FILES_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "%s: it has more than %d folders", l->root, (int)QC_FOLDER_FILES_MAX);
    struct folder_id *more = qc_grown(l->folders, l->folder_count, &l->folder_capacity, sizeof *more, st);
    if (!more) return false;
    l->folders = more;
    l->folders[l->folder_count++] = id;
    return qc_index_add(&l->by_id, hash, (uint32_t)l->folder_count, st);
}

/* Checks a link to a folder or a file that would be read. */
static bool may_follow(struct listing *l, const char *path, const char *name, bool is_folder, struct qc_status *st)
{
    if (l->follow != QC_FOLLOW_NOTHING || (!is_folder && qc_file_kind(name) == QC_FILE_OTHER) ||
        qc_path_is_below(path, l->root))
        return true;
    l->found = true;
    return qc_fail(st, QC_BAD_INPUT,
                   "%s is a link to outside of the folder; copy its target, or allow it with --follow-links", path);
}

static bool is_later(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

bool qc_folder_is_unchanged(const struct qc_folder *f, const char *path, struct qc_status *st)
{
    struct stat info;
    const bool known = f->newest.tv_sec || f->newest.tv_nsec;
    return !known || stat(path, &info) || !is_later(info.st_mtim, f->newest) ||
           qc_fail(st, QC_BAD_INPUT, "it has changed while it was read; run again when nothing writes to it");
}

/* below: path below the root, "" for the root. */
static bool walk(struct listing *l, const char *below, unsigned depth, struct qc_status *st)
{
    if (depth > QC_FOLDER_DEPTH_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "%s/%s: folders are nested more than %d deep", l->root, below,
                       (int)QC_FOLDER_DEPTH_MAX);
    char path[4096], child[4096];
    qc_text(path, sizeof path, "%s/%s", l->root, below);
    DIR *d = opendir(path);
    if (!d) return qc_fail(st, qc_code_of_errno(errno), "cannot list %s: %s", path, strerror(errno));
    struct stat info;
    bool ok = fstat(dirfd(d), &info) == 0 || qc_fail(st, QC_MACHINE, "cannot list %s: %s", path, strerror(errno));
    ok = ok && enter_folder(l, &info, path, st);
    for (struct dirent *e; ok && (l->arena || !l->found) && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        qc_text(child, sizeof child, "%s%s%s", below, *below ? "/" : "", e->d_name);
        if (strlen(l->root) + strlen(child) + 2 >= sizeof path) {
            ok = qc_fail(st, QC_UNSUPPORTED, "%s: the names of its folders are too long", l->root);
            break;
        }
        qc_text(path, sizeof path, "%s/%s", l->root, child);
        if (lstat(path, &info)) continue;
        if (S_ISLNK(info.st_mode)) {
            if (stat(path, &info)) continue; /* a dangling link */
            if (!(ok = may_follow(l, path, e->d_name, S_ISDIR(info.st_mode), st))) break;
        }
        if (S_ISDIR(info.st_mode))
            ok = walk(l, child, depth + 1, st);
        else if (S_ISREG(info.st_mode))
            ok = take_file(l, child, e->d_name, st);
        if (l->out && S_ISREG(info.st_mode) && is_later(info.st_mtim, l->out->newest)) l->out->newest = info.st_mtim;
    }
    closedir(d);
    return ok;
}

/* Orders folder by folder: '/' sorts before all other characters. */
static int by_path(const void *a, const void *b)
{
    const unsigned char *x = *(const unsigned char *const *)a, *y = *(const unsigned char *const *)b;
    for (; *x && *x == *y; x++, y++) {
    }
    const int left = *x == '/' ? 1 : *x ? *x + 1 : 0, right = *y == '/' ? 1 : *y ? *y + 1 : 0;
    return (left > right) - (left < right);
}

static bool number_classes(struct qc_folder *f, struct qc_arena *a, struct qc_status *st)
{
    size_t length = 0, count = 0;
    f->labels = QC_NEW_ARRAY(a, uint32_t, f->count, st);
    f->classes = QC_NEW_ARRAY(a, const char *, f->count, st);
    if (!f->labels || !f->classes) return false;
    for (size_t i = 0; i < f->count; i++) {
        const char *slash = strchr(f->files[i], '/');
        if (!slash) {
            f->labels = NULL;
            return true;
        }
        const size_t n = (size_t)(slash - f->files[i]);
        if (!count || n != length || strncmp(f->classes[count - 1], f->files[i], n) != 0) {
            if (!(f->classes[count++] = qc_arena_strndup(a, f->files[i], n, st))) return false;
            length = n;
        }
        f->labels[i] = (uint32_t)(count - 1);
    }
    f->class_count = count;
    return true;
}

static void drop_listing(struct listing *l)
{
    free(l->folders);
    qc_index_free(&l->by_id);
}

bool qc_folder_has(const char *path, enum qc_file_kind kind, enum qc_follow follow)
{
    struct qc_status st = QC_STATUS_INIT;
    struct listing l = {.root = path, .kind = kind, .follow = follow};
    walk(&l, "", 0, &st);
    drop_listing(&l);
    return l.found;
}

bool qc_folder_list(struct qc_folder *out, const char *path, enum qc_file_kind kind, enum qc_follow follow,
                    struct qc_arena *a, struct qc_status *st)
{
    struct qc_folder f = {.count = 0};
    struct listing l = {.out = &f, .root = path, .kind = kind, .follow = follow, .arena = a};
    bool ok = walk(&l, "", 0, st);
    drop_listing(&l);
    if (ok && f.count) {
        qsort(f.files, f.count, sizeof *f.files, by_path);
        const char **own = qc_arena_dup(a, f.files, f.count, sizeof *f.files, st);
        free(f.files);
        f.files = own;
        ok = own && number_classes(&f, a, st);
    } else {
        free(f.files);
        f.files = NULL;
    }
    if (ok) *out = f;
    return ok;
}
